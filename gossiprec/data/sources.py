"""Files on disk: plain, gzip, or a member of a zip archive; any damage becomes a DataError."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from gossiprec.base.errors import DataError
from gossiprec.base.inputs import note_input
from gossiprec.base.regular_files import format_bytes, open_regular_file
from gossiprec.data.foreign import refuse_document

_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)


MOST_TIMES = 100
"""Limit of unpacked size over packed size; tables have a ratio of 3 to 30."""
ALWAYS_UNPACKED = 1 << 24
"""Bytes to which any archive may unpack."""


class Unpacked(io.RawIOBase):
    """A stream of unpacked bytes, which refuses far more bytes than the archive has.

    Parameters
    ----------
    source : FileSource
    stream : binary stream
    packed : int
        Size of the archive in bytes.
    """

    def __init__(self, source: FileSource, stream: Any, packed: int) -> None:
        self._source, self._stream, self._read = source, stream, 0
        self._most = max(ALWAYS_UNPACKED, MOST_TIMES * packed)

    def readable(self) -> bool:
        """Return True: bytes can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer; see :class:`io.RawIOBase`."""
        data = self._stream.read(len(buffer))
        self._read += len(data)
        if self._read > self._most:
            raise DataError(
                f"{self._source}: found more than {format_bytes(self._most)} in an archive that is over "
                f"{MOST_TIMES} times smaller; expected an archive of a table; if it is one, unpack it and "
                "pass the path of the file"
            )
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class FileSource:
    """One readable stream: a file, or a member of a zip archive.

    Attributes
    ----------
    path : Path
    member : str or None
        Name inside the archive at `path`.
    """

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}:{self.member}"

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the unpacked bytes.

        Raises
        ------
        DataError
            If the file is missing or damaged, now or while it is being read.
        """
        note_input(self.path)
        try:
            with open_regular_file(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                if self.member is not None:
                    with zipfile.ZipFile(file) as archive, archive.open(self.member) as stream:
                        yield self._bounded(stream, archive.getinfo(self.member).compress_size)
                elif self.path.suffix == ".gz":
                    with gzip.open(file) as stream:
                        yield self._bounded(stream, size)
                else:
                    yield file
        except _DAMAGE as error:
            raise DataError(
                f"{self}: cannot be read: {str(error) or type(error).__name__}; download the file again"
            ) from error

    def _bounded(self, stream: Any, packed: int) -> BinaryIO:
        return io.BufferedReader(Unpacked(self, stream, packed), buffer_size=1 << 20)

    def sha256(self) -> str:
        """Return the digest of the unpacked bytes."""
        with self.open() as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def ends_in_a_line(self) -> bool:
        """Return whether the last line is terminated; compressed files are assumed to be whole."""
        if self.member is not None or self.path.suffix == ".gz":
            return True
        with self.open() as stream:
            stream.seek(max(self.path.stat().st_size - 4, 0))
            return stream.read().rstrip(b"\0").endswith((b"\n", b"\r"))

    def error(self, line: int, found: str, allowed: str) -> DataError:
        """Return (not raise) the error for a bad line."""
        return DataError(f"{self}: line {line}: found {found}; expected {allowed}")


def find_file(path: Path, names: Sequence[str]) -> FileSource | None:
    """Find the first of `names` (or `name` + ``.gz``) in a folder or a zip archive.

    Parameters
    ----------
    path : Path
        A folder, or an archive in which the name may be in any folder.
    names : sequence of str

    Raises
    ------
    DataError
        If `path` ends in ``.zip`` and is not a zip archive.
    """
    for name in names:
        if path.suffix == ".zip":
            source = next(
                (FileSource(path, m) for m in zip_members(path) if PurePosixPath(m).name == name), None
            )
        else:
            source = next((FileSource(p) for p in (path / name, path / f"{name}.gz") if p.is_file()), None)
        if source is not None:
            return source
    return None


def resolve_data_file(path: Path, names: Sequence[str]) -> FileSource:
    """Return the data file at `path`: itself, or the first of `names` inside it.

    Raises
    ------
    DataError
        If there is none; the message names the files that were expected.
    """
    if not path.exists():
        raise DataError(
            f"{path}: no such file or folder; pass the path of a folder, a .zip file or {names[0]}"
        )
    if path.is_file() and path.suffix != ".zip":
        return FileSource(path)
    source = find_file(path, names)
    if source is None:
        wanted = ", ".join(f"{name} or {name}.gz" for name in names)
        raise DataError(f"{path}: contains none of the expected files ({wanted})")
    return source


def find_companion_file(path: Path, names: Sequence[str]) -> FileSource | None:
    """Find the first of `names` near the data: in the folder or the archive, or next to the file.

    Raises
    ------
    DataError
        If `path` ends in ``.zip`` and is not a zip archive.
    """
    return find_file(path if path.is_dir() or path.suffix == ".zip" else path.parent, names)


def zip_members(path: Path) -> list[str]:
    """Return the names of the files in a zip archive.

    Raises
    ------
    DataError
        If it is not a zip archive.
    """
    try:
        with open_regular_file(path) as file, zipfile.ZipFile(file) as archive:
            held = [info.filename for info in archive.infolist() if not info.is_dir()]
    except _DAMAGE as error:
        raise DataError(
            f"{path}: not a readable zip archive ({str(error) or type(error).__name__}); download "
            "the file again"
        ) from error
    refuse_document(path, held)
    return [
        name for name in held if not name.startswith("__MACOSX/") and PurePosixPath(name).name != ".DS_Store"
    ]
