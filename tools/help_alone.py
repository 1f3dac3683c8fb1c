"""Lets --help answer where numpy, torch and the like are not installed.

A tool imports this before them. With --help or -h on the command line a package that is missing is
stood in for, as far as its name must be there for the file to be read; otherwise the import fails
and names it, as ever.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

PACKAGES = ("gguf", "numpy", "safetensors", "tokenizers", "torch", "transformers")


class _StandIn(type):
    """A class whose attributes, calls and items are itself: base, decorator, constant, function."""

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing

    def __call__(cls, *args, **kwargs):
        return _Nothing

    def __getitem__(cls, item):
        return _Nothing

    def __or__(cls, other):
        return _Nothing

    __ror__ = __or__


class _Nothing(metaclass=_StandIn):
    pass


class _Package(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _Finder:
    """Finds submodules of what is stood in for."""

    def find_spec(self, name: str, path=None, target=None):
        if name.split(".")[0] not in missing:
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        return _Package(spec.name)

    def exec_module(self, module):
        pass


missing: set[str] = set()
if {"--help", "-h"} & set(sys.argv[1:]):
    missing = {name for name in PACKAGES if importlib.util.find_spec(name) is None}
    sys.meta_path.append(_Finder())
