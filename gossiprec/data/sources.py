"""Files on disk: plain, gzip, or a member of a zip archive; other formats and any damage become a DataError."""

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
from gossiprec.base.inputs import format_bytes, no_such_file, note_input, open_regular_file

EXPECTED = "expected delimited text, plain or compressed as .gz or .zip, or Parquet"
EXPORT = "export the table as CSV"
TEXT = "the path of a delimited text file, plain, .gz or .zip"
UNPACK = "unpack the file, or compress it as .gz or .zip"

MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (
        b"\x1f\x8b",
        "a gzip file without the suffix .gz, or compressed twice",
        "rename it to .gz, or unpack it",
    ),
    (
        b"PK\x03\x04",
        "a zip archive without the suffix .zip, or an archive inside an archive",
        "rename it to .zip, or unpack it",
    ),
    (b"BZh", "a bzip2 file", UNPACK),
    (b"\xfd7zXZ", "an xz file", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstandard file", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive", UNPACK),
    (b"Rar!", "a RAR archive", UNPACK),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook (.xls)", EXPORT),
    (b"\x89PNG", "an image (PNG)", EXPORT),
    (b"\xff\xd8\xff", "an image (JPEG)", EXPORT),
    (b"GIF8", "an image (GIF)", EXPORT),
    (b"II*\0", "an image (TIFF)", EXPORT),
    (b"MM\0*", "an image (TIFF)", EXPORT),
    (b"BM", "an image (BMP)", EXPORT),
    (b"\0\0\1\0", "an image (ICO)", EXPORT),
    (b"8BPS", "an image (PSD)", EXPORT),
    (b"ID3", "an audio file (MP3)", EXPORT),
    (b"RIFF", "an image, audio or video file (RIFF)", EXPORT),
    (b"%PDF-", "a PDF document", EXPORT),
    (b"{\\rtf", "a text document (RTF)", EXPORT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"\x89HDF", "an HDF5 file", EXPORT),
    (b"MATLAB 5.0", "a Matlab file", EXPORT),
    (b"\x93NUMPY", "a NumPy array", EXPORT),
    (b"ARROW1", "an Arrow or Feather file", "convert it to Parquet or CSV"),
    (b"FEA1", "a Feather file", "convert it to Parquet or CSV"),
    (b"PAR1", "a Parquet file that is cut, or in an archive", "download it again, or unpack it"),
    (b"Obj\x01", "an Avro file", "convert it to Parquet or CSV"),
    (b"ORC", "an ORC file", "convert it to Parquet or CSV"),
    *((bytes([0x80, protocol]), "a Python pickle, which may run code", EXPORT) for protocol in range(2, 6)),
)
"""First bytes, the format, and the next step."""
TEXTS = (b"%PDF-", b"{\\rtf")
"""First bytes of the formats that may have no control characters; in all others, some follow soon."""
TAR_MARK, MEDIA_MARK = slice(257, 262), slice(4, 8)
SHEETS = {"xl/workbook.xml": "an Excel workbook (.xlsx)", "xl/workbook.bin": "an Excel workbook (.xlsb)",
          "content.xml": "an OpenDocument file", "word/document.xml": "a Word document",
          "ppt/presentation.xml": "a PowerPoint document", "Index/Document.iwa": "a Numbers document"}  # fmt: skip
"""Members of archives that show that the archive is a document."""


def refuse_binary(source_name: object, head: bytes) -> None:
    """Refuse a file that begins with the first bytes of another format.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    is_text = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    for magic, name, step in MAGIC:
        if head.startswith(magic) and (not is_text or magic in TEXTS):
            raise refusal(source_name, name, step)
    if is_text:
        return
    if head[TAR_MARK] == b"ustar":
        raise refusal(source_name, "a tar archive", "unpack it, and pass the path of the table inside it")
    if head[MEDIA_MARK] == b"ftyp":
        raise refusal(source_name, "an image or video file (HEIC, AVIF, MP4)", EXPORT)


def refuse_document(source_name: object, members: Sequence[str]) -> None:
    """Refuse an archive that is a document.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    for member, name in SHEETS.items():
        if member in members:
            raise refusal(source_name, name, EXPORT)


def refusal(source_name: object, found: str, step: str) -> DataError:
    """Return (not raise) the error for a file of another format."""
    return DataError(f"{source_name}: found {found}; {EXPECTED}; {step}")


_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)


MAX_RATIO = 100
"""Limit of unpacked size over packed size; tables have a ratio of 3 to 30."""
MIN_UNPACKED = 1 << 24
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
        self._most = max(MIN_UNPACKED, MAX_RATIO * packed)

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
                f"{MAX_RATIO} times smaller; expected an archive of a table; if it is one, unpack it and "
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
        except FileNotFoundError as error:
            raise DataError(f"{self.path}: {no_such_file(self.path)}") from error
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
        expected = f"the path of a folder, a .zip file or {names[0]}"
        raise DataError(f"{path}: {no_such_file(path, expected, 'dataset.path', what='file or folder')}")
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


def open_text_source(path: Path, key: str | None = "dataset.path") -> FileSource:
    """Return the source of a text file: plain, .gz, or the only member of a .zip.

    `key` names the path in a scenario, for the message if there is no such file.

    Raises
    ------
    DataError
        If there is no such file, or a .zip does not hold exactly one.
    """
    try:
        with open_regular_file(path) as file:
            is_archive = file.read(4) == b"PK\3\4"
    except FileNotFoundError as error:
        raise DataError(f"{path}: {no_such_file(path, TEXT, key)}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; expected {TEXT}") from error
    if path.suffix != ".zip":
        if is_archive:
            refuse_document(path, zip_members(path))
        return FileSource(path)
    held = zip_members(path)
    if len(held) != 1:
        named = ", ".join(held[:5]) or "none"
        raise DataError(
            f"{path}: found {len(held)} files ({named}); expected an archive of exactly one file; "
            "unpack the file that you need"
        )
    return FileSource(path, held[0])
