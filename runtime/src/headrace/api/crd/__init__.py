"""CustomResourceDefinitions made from the pydantic models, which are their only source.

- `structural`: JSON schema of a model -> structural schema of Kubernetes (pure).
- `definitions`: names, printer columns and subresources of each resource (pure).
- `__main__`: ``python -m headrace.api.crd [--check] [DIRECTORY]`` writes or compares ``crds/``.
"""

from headrace.api.crd.definitions import build_definitions, render_definition

__all__ = ["build_definitions", "render_definition"]
