"""Refusal of formats other than delimited text, recognised by their first bytes or lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gossiprec.base.errors import DataError

EXPECTED = "expected delimited text, plain or compressed as .gz or .zip, or Parquet"
EXPORT = "export the table as CSV"
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
    (b"RIFF", "an image, audio or video file (RIFF)", EXPORT),
    (b"%PDF", "a PDF document", EXPORT),
    (b"{\\rtf", "a text document (RTF)", EXPORT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"\x89HDF", "an HDF5 file", EXPORT),
    (b"MATLAB 5.0", "a Matlab file", EXPORT),
    (b"\x93NUMPY", "a NumPy array", EXPORT),
    (b"ARROW1", "an Arrow or Feather file", "convert it to Parquet or CSV"),
    (b"FEA1", "a Feather file", "convert it to Parquet or CSV"),
    (b"PAR1", "a Parquet file in an archive", UNPACK),
    (b"Obj\x01", "an Avro file", "convert it to Parquet or CSV"),
    (b"ORC", "an ORC file", "convert it to Parquet or CSV"),
    (b"\x80\x02", "a Python pickle, which may run code", EXPORT),
    (b"\x80\x03", "a Python pickle, which may run code", EXPORT),
    (b"\x80\x04", "a Python pickle, which may run code", EXPORT),
    (b"\x80\x05", "a Python pickle, which may run code", EXPORT),
)
"""First bytes, the format, and the next step."""
TEXTUAL = (b"BZh", b"GIF8", b"RIFF", b"ORC", b"Rar!", b"FEA1")
"""First bytes that may also begin a word: in these formats, bytes that are no text follow right after them."""
TAR_MARK = slice(257, 262)
SHEETS = {"xl/workbook.xml": "an Excel workbook (.xlsx)", "xl/workbook.bin": "an Excel workbook (.xlsb)",
          "content.xml": "an OpenDocument file", "word/document.xml": "a Word document",
          "ppt/presentation.xml": "a PowerPoint document", "Index/Document.iwa": "a Numbers document"}  # fmt: skip
"""Members of archives that show that the archive is a document."""

LINES = 50
"""Number of lines that are compared with one another."""
JSON = re.compile(r"\s*(?:\{\s*[\"'}]|\[\s*[\[{]|[\[{]\s*(?:[\r\n]|$))")
MARKUP = re.compile(r"\s*(?!<NA>)<(?:\?xml|!|[A-Za-z][\w:]*[\s/>])")
SQL = re.compile(
    r"(?:\s*--[^\n]*\n)*\s*(?:INSERT\s+INTO|CREATE\s+TABLE|DROP\s+TABLE|PRAGMA)\b", re.IGNORECASE
)
ARFF = re.compile(r"(?:\s*%[^\n]*\n)*\s*@relation\b", re.IGNORECASE)
MATRIX_MARKET = re.compile(r"\s*%%MatrixMarket")
SEPARATOR = re.compile(r"\s*\"?sep=(.)\"?[ \t]*[,;\t]*(?:[\r\n]|$)", re.IGNORECASE)
NETFLIX = re.compile(r"^\s*\d+:[ \t]*\r?\n\s*\d+\s*,\s*\d+(?:\s*,|\s*-|\s*$)", re.MULTILINE)
SPARSE = re.compile(r"\S+(?:[ \t]+\d+:[-+.\deE]+)+")
RULE = re.compile(r"[\s|:+-]*-{2}[\s|:+-]*")
KEY = re.compile(r"\s*([A-Za-z][\w/ -]*):(?:\s|$)")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def refuse_binary(where: object, head: bytes) -> None:
    """Refuse a file that begins with the first bytes of another format.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    for magic, name, step in MAGIC:
        if head.startswith(magic) and (magic not in TEXTUAL or not _is_text(head[len(magic) : 64])):
            raise _refusal(where, name, step)
    if head[TAR_MARK] == b"ustar":
        raise _refusal(where, "a tar archive", "unpack it, and pass the path of the table inside it")


def _is_text(data: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\r\n" for byte in data) and data.isascii()


def document_of(members: Sequence[str]) -> str | None:
    """Return the kind of document that an archive with these members is, or None."""
    return next((name for member, name in SHEETS.items() if member in members), None)


def refuse_document(where: object, members: Sequence[str]) -> None:
    """Refuse an archive that is a document.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    name = document_of(members)
    if name is not None:
        raise _refusal(where, name, EXPORT)


def refuse_text(where: object, head: str) -> None:
    """Refuse a text that begins like another format.

    Parameters
    ----------
    where : object
        The file, for the message.
    head : str
        The beginning of the text.

    Raises
    ------
    DataError
        With the format and the next step.
    """
    for form, name, step in (
        (JSON, "JSON", "convert it to CSV, for example with pandas.read_json(path, lines=True).to_csv(...)"),
        (MARKUP, "an XML or HTML document", EXPORT),
        (SQL, "SQL statements", EXPORT),
        (ARFF, "an ARFF file (Weka)", "remove its head, up to @data"),
        (MATRIX_MARKET, "a Matrix Market file", "remove the comments and the line of sizes"),
    ):
        if form.match(head):
            raise _refusal(where, name, step)
    separator = SEPARATOR.match(head)
    if separator:
        raise _refusal(
            where,
            f"the line sep={separator[1]}, which Excel adds",
            f"remove this line and set delimiter: {separator[1]!r}",
        )
    if NETFLIX.search(head):
        raise _refusal(
            where,
            "blocks as in the Netflix Prize data, with a line 'movie:' before its ratings",
            "write the movie on each line, as user,item,rating,time",
        )
    _refuse_shapes(where, [line.strip() for line in head.splitlines()[:LINES] if line.strip()])


def _refuse_shapes(where: object, lines: Sequence[str]) -> None:
    """Refuse lines with a common form that no table has."""
    if not lines:
        return
    if 2 * sum(SPARSE.fullmatch(line) is not None for line in lines) > len(lines):
        raise _refusal(
            where, "lines of 'item:value' (libsvm, LibFM)", "write one user, item and rating per line"
        )
    if any(RULE.fullmatch(line) and len(line) > 2 for line in lines[:3]):
        raise _refusal(where, "a table drawn with lines (Markdown, or database output)", EXPORT)
    keys = [match[1] if (match := KEY.match(line)) else None for line in lines]
    if len(keys) > 2 and keys[0] is not None and keys[0] in keys[1:] and keys.count(None) < len(keys) / 2:
        raise _refusal(
            where,
            f"blocks of 'key: value' such as '{keys[0]}: ...' (reviews from SNAP, BeerAdvocate)",
            "write one review per line, as user,item,rating,time",
        )
    if len(lines) > 1 and all(BRACKETS.get(line[0]) == line.rstrip(",;")[-1:] for line in lines):
        raise _refusal(where, f"brackets around every line, as in {lines[0][:40]!r}", "remove the brackets")


def _refusal(where: object, found: str, step: str) -> DataError:
    return DataError(f"{where}: found {found}; {EXPECTED}; {step}")
