"""The file that `prx backup` writes: a tar of the state folder's files with a manifest of their hashes."""

import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from prx.domain.codec import encode
from prx.domain.errors import InvalidInput, StoreError

FORMAT = 1
MANIFEST = "manifest.json"
SEAL = "manifest.sha256"
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 64 << 20


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds; `audit_head` is the newest link of its audit chain as SEQ:HASH;
    `ledger` names the file of the ledger."""

    format: int
    made_at: datetime
    release: str
    audit_head: str
    files: dict[str, Kept]
    ledger: str = "ledger.sqlite"


def fingerprint(path: Path) -> Kept:
    """Hash and size of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
    return Kept(sha256=digest.hexdigest(), size=size)


def write(target: Path, files: Mapping[str, Path], manifest: Manifest) -> None:
    """Put the backup at `target`, whole or not at all, readable by its owner alone.

    Raises: OSError.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name, path in files.items():
                    tar.add(path, arcname=name, recursive=False, filter=_plain)
                body = encode(manifest)
                _add(tar, MANIFEST, body)
                _add(tar, SEAL, hashlib.sha256(body).hexdigest().encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def unpack(source: Path, folder: Path) -> Manifest:
    """Write the files of a backup into the empty `folder`, each checked against the manifest.

    Raises: InvalidInput when `source` is no whole, unchanged backup that this release can read; OSError.
    """
    with _opened(source) as tar:
        members = {member.name: member for member in _members(tar, source)}
        manifest = _manifest(tar, members, source)
        if members.keys() - {MANIFEST, SEAL} != manifest.files.keys():
            missing = sorted(manifest.files.keys() ^ (members.keys() - {MANIFEST, SEAL}))
            raise damaged(
                source, f"it does not hold exactly what its manifest says ({', '.join(missing[:3])})"
            )
        for name, kept in manifest.files.items():
            path = folder / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _content(tar, members[name], source) as content:
                _copy(content, path)
            if fingerprint(path) != kept:
                raise damaged(source, f"{name} is not what the manifest says")
    return manifest


def damaged(source: Path, why: str) -> InvalidInput:
    """The refusal to use a backup."""
    return InvalidInput(f"{source} is no whole backup: {why}; nothing was restored; use another backup")


def _manifest(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], source: Path) -> Manifest:
    if MANIFEST not in members or SEAL not in members:
        raise damaged(source, "it has no manifest (cut off, or not written by `prx backup`)")
    with _content(tar, members[MANIFEST], source) as content:
        body = content.read(_LARGEST_MANIFEST)
    with _content(tar, members[SEAL], source) as content:
        seal = content.read(_CHUNK)
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise damaged(source, "its manifest was changed")
    try:
        told = msgspec.json.decode(body)
        number = told["format"]
        if number > FORMAT:
            raise StoreError(
                f"{source} is a backup of format {number} and this PRX Evolution reads up to {FORMAT}; "
                "nothing was restored; use the newer release: pip install --upgrade prx-evolution"
            )
        return msgspec.convert(told, Manifest)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        raise damaged(source, f"its manifest cannot be read ({error})") from error


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar
    except tarfile.TarError as error:
        raise damaged(source, f"it cannot be read ({error})") from error


def _members(tar: tarfile.TarFile, source: Path) -> Iterator[tarfile.TarInfo]:
    seen = set[str]()
    try:
        found = tar.getmembers()
    except (ValueError, OverflowError, UnicodeDecodeError) as error:
        raise damaged(source, f"it cannot be read ({error})") from error
    for member in found:
        path = PurePosixPath(member.name)
        if not member.isreg() or path.is_absolute() or ".." in path.parts or member.name in seen:
            raise damaged(source, f"it holds {member.name!r}, which no backup holds")
        seen.add(member.name)
        yield member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, source: Path) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise damaged(source, f"{member.name} cannot be read")
    return content


def _copy(content: IO[bytes], path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while piece := content.read(_CHUNK):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _add(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(body), 0o600
    tar.addfile(member, BytesIO(body))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member
