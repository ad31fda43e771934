"""Keys come from files, the environment and commands; no message shows a key."""

import stat
import sys

import pytest

from streamgauge.config.errors import PipelineFileError
from streamgauge.files import FileSystem
from streamgauge.store import keys
from streamgauge.store.errors import KeyRefusedError
from streamgauge.store.keys import create_key, default_key, is_same_file_system, load_key
from tests.support.pipelines import pipeline, tables

DIGITS = "0123456789abcdef" * 4
SECRET = bytes.fromhex(DIGITS)


def printing(code):
    return f'command:{sys.executable} -c "{code}"'


def test_new_key_is_written_to_new_private_file(tmp_path):
    key, other = create_key(tmp_path / "new" / "a.key"), create_key(tmp_path / "b.key")
    assert len(key.secret) == 32
    assert key.secret != other.secret
    assert stat.S_IMODE(key.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.path.parent.stat().st_mode) == 0o700
    assert load_key("file:new/a.key", tmp_path) == key
    with pytest.raises(KeyRefusedError, match=r"must be a new one, got .*, which exists"):
        create_key(key.path)
    assert load_key(f"file:{key.path}", tmp_path) == key


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    key = create_key(tmp_path / "keys" / "a.key")
    assert load_key("file:~/keys/a.key", tmp_path / "elsewhere").secret == key.secret
    assert load_key("file: ~/keys/a.key ", tmp_path).secret == key.secret


def test_default_key_is_in_config_folder_of_user(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = default_key(tmp_path / "clinic.toml")
    key = create_key(tmp_path / "home" / ".config" / "streamgauge" / "clinic.key")
    assert load_key(text, tmp_path).path == key.path


def test_keys_come_from_the_environment_and_from_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("CLINIC", DIGITS.upper() + "\n")
    for text in ("env:CLINIC", printing(f"print('{DIGITS}')")):
        key = load_key(text, tmp_path)
        assert key.secret == SECRET
        assert key.path is None


def test_key_command_runs_without_shell_or_input_in_given_folder(tmp_path):
    (tmp_path / "a").write_text(DIGITS)
    assert load_key("command:cat a", tmp_path).secret == SECRET
    with pytest.raises(KeyRefusedError, match="must succeed, got exit code"):
        load_key("command:cat a; touch b", tmp_path)
    with pytest.raises(KeyRefusedError, match="hexadecimal"):
        load_key("command:cat", tmp_path)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o644])
def test_key_file_accessible_to_others_is_refused_with_chmod_hint(tmp_path, mode):
    key = create_key(tmp_path / "a.key")
    key.path.chmod(mode)
    with pytest.raises(KeyRefusedError, match=rf"owner alone, got mode 0{mode:o} of .*: chmod 600 .*a.key"):
        load_key("file:a.key", tmp_path)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must be file:PATH, env:NAME or command:PROGRAM"),
        (DIGITS, "must be file:PATH, env:NAME or command:PROGRAM"),
        ("file", "must be file:PATH, env:NAME or command:PROGRAM"),
        ("file: ", "must be file:PATH, env:NAME or command:PROGRAM"),
        ("vault:" + DIGITS, "must be file:PATH, env:NAME or command:PROGRAM"),
        ("file:missing", "must be readable, got .*no such file.*streamgauge key create"),
        ("file:.", "must be readable, got .*is a directory"),
        ("env:MISSING", "must be set, got none of the name MISSING"),
        ("env:SHORT", "must be 64 hexadecimal digits, got something else from variable SHORT"),
        ("command:/no/such/program " + DIGITS, "must be a program, got /no/such/program: no such file"),
        ("env:" + DIGITS, r"must be set, got none of the name \(hidden digits\)"),
        ("file:keys/" + DIGITS.upper(), r"must be readable, got .*/keys/\(hidden digits\): no such file"),
        ("command:" + DIGITS, r"must be a program, got \(hidden digits\): no such file"),
        ("command:cat 'x", "must have its quotes closed"),
        (printing(f"print('{DIGITS}'); exit(3)"), "must succeed, got exit code 3"),
        (printing(f"print('{DIGITS}' * 2)"), "must be 64 hexadecimal digits"),
        (printing(f"import sys; sys.exit('{DIGITS}')"), "must succeed, got exit code 1"),
    ],
)
def test_bad_key_source_is_refused_without_showing_key_digits(tmp_path, monkeypatch, capfd, text, rule):
    monkeypatch.setenv("SHORT", DIGITS[:-1])
    with pytest.raises(KeyRefusedError, match=rule) as refusal:
        load_key(text, tmp_path)
    told = "".join(capfd.readouterr())
    assert DIGITS[:16] not in (str(refusal.value) + told).lower()
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_hanging_key_command_times_out_although_child_still_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "COMMAND_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(KeyRefusedError, match=r"must end in 0.2 s, got .* running"):
        load_key("command:sh -c 'sleep 60 & sleep 60'", tmp_path)


def test_repr_of_key_hides_secret(tmp_path):
    key = create_key(tmp_path / "a.key")
    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)


def test_key_digits_used_as_source_name_are_never_shown(tmp_path, monkeypatch):
    monkeypatch.setenv(DIGITS, DIGITS)
    (tmp_path / DIGITS).write_text(DIGITS)
    (tmp_path / DIGITS).chmod(0o600)
    for text in (f"env:{DIGITS}", f"file:{DIGITS}"):
        key = load_key(text, tmp_path)
        assert key.secret == SECRET
        assert DIGITS[:16] not in key.source
        made = pipeline(tmp_path, tables(key=text))
        assert DIGITS[:16] not in repr(made.file)
        assert DIGITS[:16] not in str(made.plan())


@pytest.mark.parametrize("key", [DIGITS, f"vault:{DIGITS}", [DIGITS], int(DIGITS[:32], 16), f" {DIGITS}"])
def test_key_setting_with_literal_key_is_refused_and_not_shown(tmp_path, key):
    with pytest.raises(PipelineFileError, match=r'stream\.key must be "file:PATH", .*, got none of them$') as refusal:
        pipeline(tmp_path, tables(key=key))
    shown = str(refusal.value)
    assert DIGITS[:8] not in shown
    assert str(key)[:8] not in shown


def test_key_creation_on_full_disk_leaves_no_file(tmp_path):
    class FullDisk(FileSystem):
        def write(self, descriptor, data):
            raise OSError(28, "No space left on device")

    with pytest.raises(KeyRefusedError, match=r"must be writable, got .*no space left"):
        create_key(tmp_path / "a.key", FullDisk())
    assert not (tmp_path / "a.key").exists()


def test_key_on_file_system_of_store_is_detected(tmp_path):
    assert is_same_file_system(tmp_path / "a.key", tmp_path / "not" / "yet" / "there")
    assert not is_same_file_system(tmp_path / "a.key", type(tmp_path)("/proc/self"))
