"""The curator's key: 32 bytes, written as 64 hexadecimal digits, from a file, the environment or a command.

    file:~/keys/clinic.key      a file that its owner alone can read
    env:CLINIC_KEY              a variable of the environment
    command:pass show clinic    the output of a program, run without a shell

**Promise.** No error, log or `repr` has a digit of a key, nor the output or the arguments of a command. Errors are
built from the kind of source and from rules, and `Key` hides its secret. If a key is written in the place of a
name (`env:9f86...`), it is hidden (`redact_key`). Digits that were read from a file or a command are overwritten
after decoding; a variable of the environment stays.
"""

import binascii
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from streamgauge.config.paths import resolve_path
from streamgauge.config.settings import PipelineFile
from streamgauge.files import SYSTEM, FileSystem, create_file, make_private_folder
from streamgauge.memory import wipe
from streamgauge.noise.entropy import KEY_BYTES, read_system_key
from streamgauge.store.drivers import has_store
from streamgauge.store.encryption import wrap
from streamgauge.store.errors import KeyRefusedError, describe_os_error

KEY_PATTERN = re.compile(rb"\s*([0-9a-fA-F]{%d})\s*" % (2 * KEY_BYTES))
MAX_KEY_FILE_BYTES = 4096  # of a key file
KEY_LIKE_PATTERN = re.compile(r"[0-9a-fA-F]{32,}")  # half of a key counts too
COMMAND_TIMEOUT_SECONDS = 60.0  # includes the time in which a person answers a prompt


@dataclass(frozen=True)
class Key:
    """A key and its source; `path` is None unless that is a file."""

    source: str
    secret: bytes = field(repr=False)
    path: Path | None = None

    def wrap(self, identity: str, generation: int, data_key: bytes) -> bytes:
        """Return a slot with a data key that this key opens."""
        return wrap(self.secret, identity, generation, data_key)


def load_pipeline_key(file: PipelineFile) -> Key:
    """Return the key of a pipeline file; create the default key if there is no store yet."""
    named = file.stream.key or default_key(file.path)
    path = key_path(named, file.path.parent)
    if path is not None and not os.path.exists(path):
        if has_store(file):
            raise KeyRefusedError(
                f"key file must be the one that the store in {file.folder} was written under, got nothing at "
                f"{redact_key(path)}: restore it; no other key opens the store"
            )
        if file.stream.key is None:
            return create_key(path)
    return load_key(named, file.path.parent)


def key_path(text: str, base: Path) -> Path | None:
    """Return the path of a key that is a file, without reading it."""
    kind, _, rest = text.partition(":")
    return resolve_path(rest.strip(), base) if kind == "file" else None


def redact_key(text: str | Path) -> str:
    """Return a name without anything that looks like a key, or half of one.

    >>> redact_key("env:" + "9f" * 32)
    'env:(hidden digits)'
    """
    return KEY_LIKE_PATTERN.sub("(hidden digits)", str(text))


def load_key(text: str, base: Path) -> Key:
    """Return the key of a source text; paths are relative to `base`."""
    kind, colon, rest = text.partition(":")
    source = KEY_LOADERS.get(kind)
    if source is None or not colon or not rest.strip():
        raise KeyRefusedError("key must be file:PATH, env:NAME or command:PROGRAM, got none of them")
    return source(rest.strip(), base)


def create_key(path: Path, system: FileSystem = SYSTEM) -> Key:
    """Create a key in a new file."""
    secret = read_system_key()
    try:
        if not path.parent.exists():
            make_private_folder(path.parent)
        create_file(path, secret.hex().encode() + b"\n", system)
        system.sync_path(path.parent)
    except FileExistsError:
        raise KeyRefusedError(f"key file must be a new one, got {redact_key(path)}, which exists") from None
    except OSError as error:
        raise KeyRefusedError(
            f"key file must be writable, got {redact_key(path)}: {describe_os_error(error)}"
        ) from None
    return Key(f"file:{path}", secret, path)


def default_key(file: Path) -> str:
    """Return the default key source: in the curator's home, not next to the store."""
    return f"file:~/.config/streamgauge/{file.stem}.key"


def is_same_file_system(path: Path, folder: Path) -> bool:
    """Return whether one stolen disk would have both the key and the store."""
    return _find_existing_parent(path).stat().st_dev == _find_existing_parent(folder).stat().st_dev


def _find_existing_parent(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _load_from_file(text: str, base: Path) -> Key:
    path = resolve_path(text, base)
    try:
        with path.open("rb", buffering=0) as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            digits = _read_unbuffered(file)
    except OSError as error:
        raise KeyRefusedError(
            f"key file must be readable, got {redact_key(path)}: {describe_os_error(error)}; "
            "streamgauge key create makes one"
        ) from None
    if mode & 0o077:
        name = redact_key(path)
        raise KeyRefusedError(
            f"key file must be readable by its owner alone, got mode {mode:04o} of {name}: chmod 600 {name}"
        )
    return Key(f"file:{redact_key(path)}", _decode_and_wipe(digits, f"file {redact_key(path)}"), path)


def _read_unbuffered(file: FileIO) -> bytes:
    """Read without a buffer, in which a key would stay; a pipe may return it in pieces."""
    text = file.read(MAX_KEY_FILE_BYTES) or b""
    while len(text) < MAX_KEY_FILE_BYTES and (more := file.read(MAX_KEY_FILE_BYTES)):
        text += more
    return text


def _load_from_environment(name: str, base: Path) -> Key:
    del base
    if name not in os.environ:
        raise KeyRefusedError(f"key variable must be set, got none of the name {redact_key(name)}")
    secret = _decode_key(os.environb[os.fsencode(name)], f"variable {redact_key(name)}")
    return Key(f"env:{redact_key(name)}", secret)


def _load_from_command(text: str, base: Path) -> Key:
    try:
        words = shlex.split(text)
    except ValueError:
        raise KeyRefusedError("key command must have its quotes closed, got one open") from None
    program = redact_key(words[0])
    return Key(f"command:{program}", _decode_and_wipe(_run_key_command(words, base), f"command {program}"))


def _run_key_command(words: list[str], base: Path) -> bytes:
    """Return the output of a command. A grandchild that keeps the pipe open does not block."""
    quiet, program = subprocess.DEVNULL, redact_key(words[0])
    try:
        child = subprocess.Popen(words, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, cwd=base)
    except OSError as error:
        raise KeyRefusedError(f"key command must be a program, got {program}: {describe_os_error(error)}") from None
    with child:
        try:
            printed, _ = child.communicate(timeout=COMMAND_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            raise KeyRefusedError(
                f"key command must end in {COMMAND_TIMEOUT_SECONDS:g} s, got {program} running"
            ) from None
    if child.returncode:
        raise KeyRefusedError(f"key command must succeed, got exit code {child.returncode} from {program}")
    return printed


def _decode_and_wipe(text: bytes, whence: str) -> bytes:
    """Decode a text that nothing else refers to, and wipe it."""
    try:
        return _decode_key(text, whence)
    finally:
        wipe(text)


def _decode_key(text: bytes, whence: str) -> bytes:
    found = KEY_PATTERN.fullmatch(text)
    if found is None:
        raise KeyRefusedError(f"key must be {2 * KEY_BYTES} hexadecimal digits, got something else from {whence}")
    return binascii.unhexlify(memoryview(text)[slice(*found.span(1))])


KEY_LOADERS: dict[str, Callable[[str, Path], Key]] = {
    "file": _load_from_file,
    "env": _load_from_environment,
    "command": _load_from_command,
}
