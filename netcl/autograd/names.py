"""What code names: the globals that it looks up, and the attributes. And whose it is, a library's or the user's."""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_LIBRARIES = sys.stdlib_module_names | {"netcl", "numpy", "pyopencl"}
_INSTALLED = ("site-packages", "dist-packages")


class Names(NamedTuple):
    """What code and the functions within it name; a text in it may be the name that `getattr` is given."""

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """Return what a function's code names."""
    steps = list(dis.get_instructions(code))
    texts = {x for x in code.co_consts if isinstance(x, str) and x.isidentifier()}
    inner = [names_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    return Names(
        frozenset(x.argval for x in steps if x.opname in _GLOBAL).union(*[each.globals for each in inner]),
        frozenset(texts.union(code.co_names, *[each.attributes for each in inner])),
        frozenset(x.argval for x in steps if x.opname == "IMPORT_NAME").union(*[each.imports for each in inner]),
    )


def top_of(x: Any) -> str:
    """Return the first part of the name of a module, or of that of a function or class; some of C have no text there.

    >>> top_of(names_of)
    'netcl'
    """
    module = getattr(x, "__name__" if isinstance(x, ModuleType) else "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else "builtins"


def of_a_library(x: Any) -> bool:
    """Say whether a module, function or class is a library's, which keeps nothing that a loss depends on.

    >>> of_a_library(names_of), of_a_library(len)
    (True, True)
    """
    if isinstance(x, FunctionType):  # by its globals, since a decorator may have given it another's name
        module = sys.modules.get(str(x.__globals__.get("__name__")))
        return module is not None and vars(module) is x.__globals__ and of_a_library(module)
    return _of_a_library(top_of(x))


@lru_cache(maxsize=4096)
def _of_a_library(top: str) -> bool:
    path = str(getattr(sys.modules.get(top), "__file__", None))
    return top in _LIBRARIES or (top != "__main__" and any(each in path for each in _INSTALLED))
