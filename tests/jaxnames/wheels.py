"""The content of the wheels of one version of JAX: sources, and the texts in its libraries."""

from __future__ import annotations

import re
from functools import cache, cached_property
from zipfile import ZipFile

# Larger than the libraries that only load another one, and than those of single operations.
LIBRARY_BYTES = 3_000_000


class Wheels:
    """The wheels of one version: that of jax, and that of jaxlib."""

    def __init__(self, *wheels):
        self.text, self._binary, self._files, self._wheels = {}, set(), [], wheels
        self.in_libraries, self.anywhere = cache(self._in_libraries), cache(self._anywhere)
        for wheel in wheels:
            with ZipFile(wheel) as archive:
                self._files += archive.namelist()
                for name in archive.namelist():
                    if name.endswith((".py", ".pyi")):
                        # A stub says more than a module of the same name.
                        self.text.setdefault(module_of(name), []).insert(0, archive.read(name).decode())
                    elif name.endswith(".so"):
                        self._binary.add(module_of(name))

    @cached_property
    def _libraries(self):
        found = []
        for wheel in self._wheels:
            with ZipFile(wheel) as archive:
                entries = [each for each in archive.infolist() if each.filename.endswith(".so")]
                most = max((each.file_size for each in entries), default=0)
                large = [each for each in entries if each.file_size >= min(most, LIBRARY_BYTES)]
                found += [part for each in large for part in constants(archive.read(each))]
        return found

    def _in_libraries(self, name):
        """Whether a library has this name as a text of its own, or in the signature of a function.

        Linkers keep a name that is the end of a longer one only once, as that end.
        """
        text, signature = name.encode() + b"\0", b"def " + name.encode() + b"("
        for library in self._libraries:
            if signature in library:
                return True
            at = library.find(text)
            while at >= 0:
                if (
                    not at
                    or library[at - 1 : at] == b"\0"
                    or chr(library[at - 1]).isalnum()
                    or library[at - 1] == ord("_")
                ):
                    return True
                at = library.find(text, at + 1)
        return False

    @cached_property
    def _everything(self):
        words = re.compile(r"^\s*(?:def|class)\s+(\w+)|\b(\w+)\s*[:=]", re.MULTILINE)
        return {
            word
            for texts in self.text.values()
            for text in texts
            for pair in words.findall(text)
            for word in pair
        }

    def _anywhere(self, name):
        """Whether a file, a function, a class, an attribute or a whole text of JAX has this name."""
        if name.endswith(".py"):
            return any(f"/{file}".endswith(f"/{name}") for file in self._files)
        if "/" in name:
            return any(
                f"{quote}{name}{quote}" in text
                for texts in self.text.values()
                for text in texts
                for quote in "'\""
            )
        return name in self._everything or self.in_libraries(name)


def constants(library):
    """Return the parts of a library that have its constants; all of another file."""
    if not library.startswith(b"\x7fELF\x02\x01"):
        return [library]
    start, size, count = (
        int.from_bytes(library[at:to], "little") for at, to in ((0x28, 0x30), (0x3A, 0x3C), (0x3C, 0x3E))
    )
    found = []
    for at in range(start, start + size * count, size):
        kind = int.from_bytes(library[at + 4 : at + 8], "little")
        flags, _, offset, length = (
            int.from_bytes(library[at + i : at + i + 8], "little") for i in (8, 16, 24, 32)
        )
        if kind == 1 and flags & 2 and not flags & 4:  # content that is loaded, but not executed
            found.append(library[offset : offset + length])
    return found


def module_of(name):
    """Return the module of a file in a wheel."""
    path = re.sub(r"(\.cpython[^.]*|\.abi3)?\.(pyi?|so)$", "", name)
    return path.removesuffix("/__init__").replace("/", ".")
