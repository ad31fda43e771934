"""The curator's key: 32 bytes, written as 64 hexadecimal digits, from a file, the environment or a command.

    file:~/keys/clinic.key      a file that its owner alone can read
    env:CLINIC_KEY              a variable of the environment
    command:pass show clinic    what a program prints, run without a shell

**Promise.** No error, log or `repr` carries a digit of a key, nor what a command printed or was told beyond
its name: errors are built from the kind of source and from rules, and `Key` hides its secret. Where a key
stands in the place of its name (`env:9f86...`), what looks like one is hidden (`hidden`). Digits that were
read from a file or a command are overwritten once they are a key; a variable of the environment stays.
"""

import binascii
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from streamgauge.noise.entropy import KEY_BYTES, system_key, wipe
from streamgauge.pipeline.database import STORE
from streamgauge.pipeline.durable import new_file, private_folder
from streamgauge.pipeline.slots import Sealing, wrap
from streamgauge.pipeline.store_errors import KeyRefused
from streamgauge.query.durable import sync_path
from streamgauge.query.paths import path_of
from streamgauge.query.settings import PipelineFile

DIGITS = re.compile(rb"\s*([0-9a-fA-F]{%d})\s*" % (2 * KEY_BYTES))
MOST = 4096  # bytes of a file that may be one
LIKE_A_KEY = re.compile(r"[0-9a-fA-F]{32,}")  # half of one is as bad as a whole one
PATIENCE = 60.0  # seconds that a command may take, a person's answer to it included


@dataclass(frozen=True)
class Key:
    """A key and where it came from; `path` only if that is a file."""

    source: str
    secret: bytes = field(repr=False)
    path: Path | None = None

    def wrap(self, identity: str, generation: int, data_key: bytes) -> bytes:
        """A slot with a data key that this key opens."""
        return wrap(self.secret, identity, generation, data_key)

    def sealing(self) -> Sealing:
        """What writes such slots, and opens none."""
        return Sealing.of(self.source, self.secret)


def key_of(file: PipelineFile) -> Key:
    """The key that a pipeline file names; one that it does not name is made when its store is."""
    named = file.stream.key or default_key(file.path)
    path = key_path(named, file.path.parent)
    if path is not None and not os.path.exists(path):
        if (file.folder / STORE).exists():
            raise KeyRefused(
                f"key file must be the one that the store in {file.folder} was written under, got nothing at "
                f"{hidden(path)}: bring it back; no other key opens the store"
            )
        if file.stream.key is None:
            return create_key(path)
    return load_key(named, file.path.parent)


def key_is_away(file: PipelineFile) -> bool:
    """Whether a key is seen not to be where it should be; nothing is read or run. That it is not away does
    not say that it is the right one."""
    kind, _, rest = (file.stream.key or default_key(file.path)).partition(":")
    name, base = rest.strip(), file.path.parent
    if kind == "env":
        return name not in os.environ
    if kind == "command":
        return _program(name, base) is None
    return not os.access(path_of(name, base), os.R_OK)


def _program(text: str, base: Path) -> str | None:
    """What a command runs, if it is there; one that is a path begins where the command does."""
    try:
        program = shlex.split(text)[0]
    except ValueError:
        return None
    return shutil.which(base / program if os.sep in program else program)


def key_path(text: str, base: Path) -> Path | None:
    """Where a key lies that is a file; nothing is read."""
    kind, _, rest = text.partition(":")
    return path_of(rest.strip(), base) if kind == "file" else None


def hidden(text: str | Path) -> str:
    """A name as it may be told: whatever looks like a key, or half of one, is left out.

    >>> hidden("env:" + "9f" * 32)
    'env:(hidden digits)'
    """
    return LIKE_A_KEY.sub("(hidden digits)", str(text))


def load_key(text: str, base: Path) -> Key:
    """The key that a pipeline file names; paths are relative to `base`."""
    kind, colon, rest = text.partition(":")
    source = SOURCES.get(kind)
    if source is None or not colon or not rest.strip():
        raise KeyRefused("key must be file:PATH, env:NAME or command:PROGRAM, got none of them")
    return source(rest.strip(), base)


def create_key(path: Path) -> Key:
    """A new key in a new file."""
    secret = system_key()
    try:
        if not path.parent.exists():
            private_folder(path.parent)
        new_file(path, secret.hex().encode() + b"\n")
        sync_path(path.parent)
    except FileExistsError:
        raise KeyRefused(f"key file must be a new one, got {hidden(path)}, which exists") from None
    except OSError as error:
        raise KeyRefused(f"key file must be writable, got {hidden(path)}: {_why(error)}") from None
    return Key(f"file:{path}", secret, path)


def default_key(file: Path) -> str:
    """Where the key lies that a pipeline file does not name: in the curator's home, not beside the store."""
    return f"file:~/.config/streamgauge/{file.stem}.key"


def same_file_system(path: Path, folder: Path) -> bool:
    """Whether one stolen disk has both, the key and what it opens."""
    return _existing(path).stat().st_dev == _existing(folder).stat().st_dev


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _from_file(text: str, base: Path) -> Key:
    path = path_of(text, base)
    try:
        with path.open("rb", buffering=0) as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            digits = _all_of(file)
    except OSError as error:
        raise KeyRefused(
            f"key file must be readable, got {hidden(path)}: {_why(error)}; streamgauge key create makes one"
        ) from None
    if mode & 0o077:
        told = hidden(path)
        raise KeyRefused(
            f"key file must be readable by its owner alone, got mode {mode:04o} of {told}: chmod 600 {told}"
        )
    return Key(f"file:{hidden(path)}", _read(digits, f"file {hidden(path)}"), path)


def _all_of(file: FileIO) -> bytes:
    """Without a buffer, in which a key would stay; a pipe may give it in pieces."""
    text = file.read(MOST) or b""
    while len(text) < MOST and (more := file.read(MOST)):
        text += more
    return text


def _from_environment(name: str, base: Path) -> Key:
    del base
    if name not in os.environ:
        raise KeyRefused(f"key variable must be set, got none of the name {hidden(name)}")
    secret = _secret(os.environb[os.fsencode(name)], f"variable {hidden(name)}")
    return Key(f"env:{hidden(name)}", secret)


def _from_command(text: str, base: Path) -> Key:
    try:
        words = shlex.split(text)
    except ValueError:
        raise KeyRefused("key command must have its quotes closed, got one open") from None
    program = hidden(words[0])
    return Key(f"command:{program}", _read(_printed(words, base), f"command {program}"))


def _printed(words: list[str], base: Path) -> bytes:
    """What a command prints. A grandchild that holds the pipe open cannot make us wait."""
    quiet, program = subprocess.DEVNULL, hidden(words[0])
    try:
        child = subprocess.Popen(words, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, cwd=base)
    except OSError as error:
        raise KeyRefused(f"key command must be a program, got {program}: {_why(error)}") from None
    with child:
        try:
            printed, _ = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            raise KeyRefused(f"key command must end in {PATIENCE:g} s, got {program} running") from None
    if child.returncode:
        raise KeyRefused(f"key command must succeed, got exit code {child.returncode} from {program}")
    return printed


def _read(text: bytes, whence: str) -> bytes:
    """The key that a text has, which nobody else holds."""
    try:
        return _secret(text, whence)
    finally:
        wipe(text)


def _secret(text: bytes, whence: str) -> bytes:
    found = DIGITS.fullmatch(text)
    if found is None:
        raise KeyRefused(f"key must be {2 * KEY_BYTES} hexadecimal digits, got something else from {whence}")
    return binascii.unhexlify(memoryview(text)[slice(*found.span(1))])


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


SOURCES: dict[str, Callable[[str, Path], Key]] = {
    "file": _from_file,
    "env": _from_environment,
    "command": _from_command,
}
