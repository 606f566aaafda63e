"""temporary"""
from dataclasses import dataclass
from pathlib import Path

@dataclass(frozen=True, slots=True)
class Binaries:
    kube: Path
    pause: Path
