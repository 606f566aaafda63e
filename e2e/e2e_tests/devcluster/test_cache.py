"""Names of cache entries."""

from pathlib import Path

from headrace_devcluster.cache import Source, compute_key, locate_cache


def write(root: Path, **files: str) -> Source:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Source(root)


def test_the_same_content_has_the_same_key_wherever_it_is(tmp_path: Path) -> None:
    one = write(tmp_path / "one", a="1", sub__b="2")
    two = write(tmp_path / "two", sub__b="2", a="1")
    assert compute_key([one]) == compute_key([two])


def test_content_names_modes_and_words_all_count(tmp_path: Path) -> None:
    keys = {compute_key([write(tmp_path / "base", a="1")])}
    keys.add(compute_key([write(tmp_path / "content", a="2")]))
    keys.add(compute_key([write(tmp_path / "name", b="1")]))
    keys.add(compute_key([write(tmp_path / "more", a="1", b="")]))
    executable = write(tmp_path / "mode", a="1")
    (executable.path / "a").chmod(0o755)
    keys.add(compute_key([executable]))
    keys.add(compute_key([write(tmp_path / "base", a="1")], ["go1.26"]))
    assert len(keys) == 6


def test_two_words_are_not_one() -> None:
    assert compute_key([], ["ab", "c"]) != compute_key([], ["a", "bc"])


def test_compiled_modules_do_not_count(tmp_path: Path) -> None:
    source = write(tmp_path, a="1")
    before = compute_key([source])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("x")
    assert before == compute_key([source])


def test_the_cache_follows_the_environment() -> None:
    assert Path("/x") == locate_cache({"HEADRACE_CACHE": "/x", "XDG_CACHE_HOME": "/y"})
    assert Path("/y/headrace") == locate_cache({"XDG_CACHE_HOME": "/y"})
    assert Path.home() / ".cache/headrace" == locate_cache({})
