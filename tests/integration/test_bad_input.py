"""Bad input at the command: one clear message, a status that is not 0, nothing half-written."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tu_files import write_tu
from unionsnn.base.errors import DataError, RunFolderError
from unionsnn.cli.app import command_line
from unionsnn.coefficients import cache
from unionsnn.config.compose import compose_config
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data

SMALL = [
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "logger=none",
]
CYCLES = ["data.num_train=16", "data.num_validation=8", "data.num_test=8"]

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return a caller of ``unionsnn -q train`` whose folders lie below the test's own."""

    def call(*overrides: str) -> Result:
        paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
        with warnings.catch_warnings():
            # As on the command line, where a warning is printed and the work goes on.
            warnings.simplefilter("ignore")
            return CliRunner().invoke(
                command_line, ["-q", "train", *overrides, *SMALL, *paths], catch_exceptions=False
            )

    return call


def toy(tmp_path: Path, *overrides: str) -> list[str]:
    return ["data=tu", "data.name=TOY", f"data.mirror={tmp_path}", "data.offline=true", *overrides]


def refused(result: Result, *parts: str, status: int = 1) -> None:
    assert result.exit_code == status, result.output
    (line,) = [row for row in result.stderr.splitlines() if row.startswith("error: ")]
    for part in parts:
        assert part in line
    assert result.stdout == ""


def unfinished(tmp_path: Path) -> list[Path]:
    """Files that look like half of something."""
    return [p for p in tmp_path.rglob("*") if p.name.endswith((".part", ".tmp"))]


def test_a_raw_file_that_is_wrong_is_named_and_a_mended_one_works(
    tmp_path: Path, command: Command
) -> None:
    path = write_tu(tmp_path, "TOY")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, b"1, 9999\n9999, 1\n" if name == "TOY/TOY_A.txt" else content)
    refused(command(*toy(tmp_path)), "TOY_A.txt", "9999")
    assert unfinished(tmp_path) == []
    write_tu(tmp_path, "TOY")
    assert command(*toy(tmp_path)).exit_code == 0


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("0,1,0\n1,0,-1\n", "edge_labels of edge [1, 0] are [-1]; they must be numbers from 0"),
        ("0,1,0\n1,0,nan\n", "edge_attributes of edge [1, 0] are [nan]; they must be finite"),
        ("0,1,single\n1,0,single\n", "column 3 is 'single', but features of edges are numbers"),
        ("0,1\n1,0\n", "11.csv have column 3, but those of"),
        ("0,1,0\n1,0,0\n1,0,2\n", "edge [1, 0] is given more than once"),
    ],
)
def test_features_of_edges_that_are_wrong_are_refused_before_training(
    tmp_path: Path, command: Command, edges: str, message: str
) -> None:
    (tmp_path / "0.csv").write_text(edges)
    rows = ["file,label"]
    for i in range(11, 0, -1):
        (tmp_path / f"{i}.csv").write_text("0,1,1\n1,0,1\n")
        rows.append(f"{i}.csv,{i % 2}")
    rows.append("0.csv,0")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    words = [f"data.path={tmp_path}", "data.features=degree", "model=gin"]
    refused(command("data=folder", *words, "data.edge_features=labels"), message)
    assert unfinished(tmp_path) == []
    assert not list((tmp_path / "runs").rglob("results.json"))


def test_a_set_of_one_class_is_refused(tmp_path: Path, command: Command) -> None:
    write_tu(tmp_path, "TOY", classes=(3,))
    refused(command(*toy(tmp_path)), "class")


def test_coefficients_that_are_not_finite_are_refused_and_not_cached(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            cache.CoefficientSpec,
            "compute",
            lambda self, edges, nodes, **k: np.full((edges.shape[1], len(self.columns)), np.nan),
        )
        result = command(*CYCLES)
        assert result.exit_code == 1
        assert "finite" in result.stderr
    assert command(*CYCLES).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data.dataset=mydata.mak"], "mydata.mak"),
        (["data.dataset=own_datasets.Grafs"], "own_datasets.Grafs"),
        (["data.dataset=missing.pt"], "missing.pt"),
        (["data.dataset=own_datasets.Graphs", "data.arguments={cnt: 90}"], "it takes count"),
    ],
)
def test_a_data_set_of_one_s_own_that_is_misspelled_is_a_wrong_request(
    command: Command, words: list[str], said: str
) -> None:
    given = [word for word in CYCLES if "num_" not in word]
    refused(command("data=pyg", *words, *given), said, status=2)


def test_a_budget_below_the_smallest_model_says_its_size(command: Command) -> None:
    overrides = [*CYCLES, "model.parameter_budget=3", "~model.hidden_channels"]
    result = command(*overrides)
    assert result.exit_code == 2
    given = [o for o in SMALL if not o.startswith("model.hidden_channels")]
    paths = ["paths.output=/nonexistent", *given, *CYCLES]
    result = CliRunner().invoke(
        command_line, ["-q", "train", "--dry-run", "model.parameter_budget=3", *paths]
    )
    refused(result, "model.parameter_budget is 3, but the smallest model has", status=2)


def test_a_full_disk_loses_no_finished_repetition(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = [*CYCLES, "protocol=cross_validation", "protocol.folds=3"]
    original = os.fsync
    written: list[int] = []

    def full(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "repetitions" in name:
            written.append(descriptor)
            if len(written) == 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        original(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        refused(command(*folds), "No space left on device")
    (kept,) = (tmp_path / "runs").rglob("repetitions/*.json")
    before = kept.stat().st_mtime_ns
    assert unfinished(tmp_path) == []
    assert command(*folds).exit_code == 0
    assert kept.stat().st_mtime_ns == before


def test_a_full_disk_names_the_path_and_the_remedy(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.fsync
    place = ""

    def full(descriptor: int) -> None:
        if place in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    write_tu(tmp_path, "TOY")
    monkeypatch.setattr("os.fsync", full)
    for place, remedy in {"/runs/": "paths.output=", "/data/": "paths.data="}.items():
        overrides = toy(tmp_path) if place == "/data/" else CYCLES
        refused(command(*overrides), str(tmp_path) + place, "No space left on device", remedy)
    place = "nowhere"
    assert command(*toy(tmp_path)).exit_code == 0


def as_nobody(task: Callable[[], None]) -> int:
    """Run in a forked child without privileges; return its exit status."""
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            task()
        except (RunFolderError, DataError) as error:
            os._exit(3 if "(Permission denied)" in str(error) else 4)
        except BaseException:
            traceback.print_exc()
            os._exit(5)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


only_root = pytest.mark.skipif(
    os.name != "posix" or os.getuid() != 0, reason="only root can become nobody"
)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everyone may read; below pytest's own folders nobody can look."""
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base)


@only_root
def test_a_data_root_that_may_only_be_read_is_read(public: Path) -> None:
    write_tu(public, "TOY")
    root = f"paths.data={public / 'root'}"
    config = compose_config([*toy(public), root])
    expected = build_data(config).graphs.edge_coefficient

    def read() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert build_data(config).graphs.edge_coefficient.equal(expected)

    assert as_nobody(read) == 0
    # What is not there cannot be made there, and that is said.
    for path in (public / "root" / "processed").glob("*.npz"):
        path.unlink()
    assert as_nobody(read) == 3


@only_root
@pytest.mark.parametrize("existing", [False, True])
def test_a_folder_without_write_permission_is_refused(public: Path, existing: bool) -> None:
    config = compose_config([f"run_dir={public / 'run'}"])
    if existing:
        (public / "run").mkdir()

    def lock() -> None:
        with RunFolder.of(config).locked():
            pass

    assert as_nobody(lock) == 3
    public.chmod(0o777)
    (public / "run").mkdir(exist_ok=True)
    (public / "run").chmod(0o777)
    assert as_nobody(lock) == 0
