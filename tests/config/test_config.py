"""Requests: what composes, what is refused, and how it is said."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.identity import config_hash, differing_keys

REFUSALS = [
    (["modle=gin"], "key 'modle' does not exist. Did you mean 'model'?"),
    (["model=gni"], "model=gni is unknown; allowed are", "Did you mean 'gin'?"),
    (["data=mutga"], "data=mutga is unknown", "Did you mean 'mutag'?"),
    (["model.hiden_channels=3"], "Did you mean 'model.hidden_channels'?"),
    (["optimizer.lr=fast"], "optimizer.lr is 'fast'; it must be a number, such as 0.001."),
    (["optimizer.lr=0"], "optimizer.lr is 0", "greater than 0"),
    (["model.num_layers=0"], "model.num_layers is 0; it must be greater than or equal to 1."),
    (["model.num_layers=2.5"], "model.num_layers is 2.5; it must be a whole number, such as 4."),
    (["model.num_layers=true"], "model.num_layers is True; it must be a whole number"),
    (["model.residual=3"], "model.residual is 3; it must be true or false"),
    (["model.dropout=1.5"], "model.dropout is 1.5; it must be less than 1."),
    (["model.readout=summ"], "model.readout is 'summ'; it must be 'sum', 'mean' or 'max'."),
    (["gate.features=[rwa]"], "'rwa'; it must be 'raw', 'normalized', 'excess' or 'cyclomatic'."),
    (["coefficient.radius=-1"], "coefficient.radius", "-1"),
    (["coefficient.radius=two"], "coefficient.radius must be an integer or a list of", "'two'"),
    (["coefficient.descriptor=pth"], "coefficient.descriptor 'pth'", "Did you mean 'path'?"),
    (["coefficient=laplacian", "coefficient.encoding=entry_sum"], "'entry_sum'", "does not apply"),
    (["coefficient.alpha=0.3"], "coefficient.alpha 0.3 has no effect on descriptor 'path'"),
    (
        ["coefficient=overlap", "gate.features=[raw,excess]"],
        "gate.features names 'excess'",
        "type gate.features=[raw,cyclomatic].",
    ),
    (["experiment=zinc", "protocol=holdout"], "protocol=holdout has no seeds", "~protocol.seeds"),
    (["coefficient=curvature", "gate=paper"], "can be 0 or negative", "type gate.features=[raw]."),
    (["coefficient.control=shufled"], "coefficient.control is 'shufled'; it must be 'none', "),
    (
        ["model=gin", "coefficient.control=shuffled"],
        "coefficient.control is 'shuffled', but the plain model gin reads no coefficient",
        "gate=default",
    ),
    (["data=tu"], "data.name must be given: type data.name=..."),
    (["data.features=lables"], "data.features is 'lables'; allowed are labels, categorical"),
    (["protocol=cross_validation", "protocol.folds=2"], "protocol.folds is 2"),
    (
        ["protocol.select_on=test_accuracy"],
        "protocol.select_on is 'test_accuracy'; the test set must not choose; "
        "allowed are val_accuracy, val_loss.",
    ),
    (["protocol.stop_on=val_mae"], "protocol.stop_on is 'val_mae'; allowed are"),
    (["protocol.report=val_loss"], "protocol.report is 'val_loss'; allowed are test_accuracy"),
    (["protocol.only=[3]"], "protocol.only names [3]; the repetitions are 0 to 0."),
    (
        ["protocol.workers=2", "trainer.devices=2"],
        "protocol.workers and trainer.devices are both larger than 1",
    ),
    (
        ["model.hidden_channels=8", "model.parameter_budget=1000"],
        "model.hidden_channels is given and model.parameter_budget is 1000",
    ),
    (["data.name=../../evil"], "data.name is '../../evil'"),
    (["model.name=a/b"], "model.name is 'a/b'"),
    (["optimizer.lr=inf"], "optimizer.lr is inf; it must be a finite number."),
    (["gate.features=[]"], "gate.features is []"),
    (["nonsense"], "Overrides are written key=value"),
    (["seed=1,2"], "several values at once belong to a sweep"),
    (["seed=-1"], "seed is -1"),
    (["=1"], "=1 names no key. Overrides are written key=value"),
    (["~seed"], "seed is missing; type seed=..., or leave out what deletes it (~seed)."),
    (["~data"], "~data: an experiment needs its data; type data=..., one of 4cycles,"),
    (["~data.variant"], "data.variant is missing; type data.variant=..."),
    (["run_dir=übung"], "type 'run_dir=\"übung\"'"),
    (["run_dir=~/a b"], "type 'run_dir=\"~/a b\"'"),
    (['run_dir=a"b'], """type 'run_dir="a\\"b"'"""),
    (["model.name=a(b", "seed=1,2"], "'model.name=\"a(b\"'", "seed=1,2: several values"),
    (["data.variant=foo"], "data.variant is 'foo'; it must be 'matched' or 'plain'."),
    (["data.num_train=0"], "data.num_train is 0; it must be greater than or equal to 2."),
    (["data.length=5"], "data.length is 5; it must be 4 or 6."),
    (["data=zinc10k", "data.size=half"], "data.size is 'half'; it must be 'subset' or 'full'."),
    (["data=photo", "data.train_share=1.5"], "data.train_share is 1.5; it must be less than 1."),
    (["+data.foo=1"], "The key 'data.foo' does not exist."),
    (["data.max_pairs=0"], "data.max_pairs is 0; it must be greater than or equal to 1."),
    (["data.max_pairs=2.5"], "data.max_pairs is 2.5"),
    (["data=cora", "data.max_pairs=9"], "data.max_pairs is 9, but the nodes of cora are those of"),
    (["model=union_gin", "gate=none"], "'union_gin'", "type model=gin for the plain model."),
    (["model=unionormer", "gate=none"], "'unionormer'", "type model=graphormer for the plain"),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda c: " ".join(c[0]))
def test_a_wrong_request_says_what_to_do(case: tuple[list[str], ...]) -> None:
    overrides, *parts = case
    with pytest.raises(RequestError) as refusal:
        compose_config(overrides)
    for part in parts:
        assert part in str(refusal.value)


@pytest.mark.parametrize("value", ["übung", "~/x", "a(b", 'a"b', "my runs/ü"])
def test_the_advised_quotes_are_right(value: str) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config([f"run_dir={value}"])
    (advised,) = shlex.split(str(refusal.value).partition("; type ")[2])
    assert compose_config([advised]).run_dir == value


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config(["model.num_layers=0", "model.dropout=2", "optimizer.lr=-1"])
    assert len(refusal.value.faults) == 3
    with pytest.raises(RequestError) as refusal:
        compose_config(["modle=gin", "optimizer.lr=fast"])
    assert len(refusal.value.faults) == 2


def options(group: str) -> list[str]:
    return sorted(p.stem for p in (config_folder() / group).glob("*.yaml"))


@pytest.mark.parametrize(
    ("group", "option"),
    [(p.parent.name, p.stem) for p in sorted(config_folder().glob("*/*.yaml"))],
)
def test_every_shipped_option_composes(group: str, option: str) -> None:
    # What these sets leave to the user.
    given = {
        "tu": ["data.name=BZR"],
        "folder": ["data.path=my_graphs"],
        "pyg": ["data.dataset=my_package.MySet"],
        "pyg_nodes": ["data.dataset=my_package.MySet"],
    }
    extra = given.get(option, [])
    config = compose_config([*extra, f"{group}={option}"])
    assert config_hash(config) == config_hash(compose_config([f"{group}={option}", *extra]))


def test_any_other_set_of_the_collection_needs_its_name_only() -> None:
    config = compose_config(["data=tu", "data.name=BZR"])
    assert config.data.tu_name == "BZR"


def test_a_union_model_is_the_plain_model_with_a_gate() -> None:
    for plain in ("gin", "gcn"):
        one, other = compose_config([f"model={plain}"]), compose_config([f"model=union_{plain}"])
        changed = differing_keys(one, other)
        assert {key.partition(".")[0] for key in changed} == {"gate", "model"}
        assert [key for key in changed if key.startswith("model")] == ["model.name"]


def test_a_gate_preset_replaces_the_model_s_own() -> None:
    assert compose_config(["model=unionsnn", "gate=paper"]).gate.preset == "paper"
    assert compose_config(["model=gin", "gate=paper"]).gate.preset == "paper"
    assert compose_config(["model=gin"]).gate.preset is None


def test_hash_leaves_out_what_cannot_change_a_result() -> None:
    base = compose_config([])
    same = ["paths.output=x", "logger=none", "protocol.workers=2", "trainer.progress=none"]
    assert config_hash(compose_config(same)) == config_hash(base)
    reordered = dict(reversed(list(base.items())))
    assert config_hash(reordered) == config_hash(base)
    for change in ("seed=1", "model.num_layers=3", "data.batch_size=8", "optimizer.lr=0.01"):
        assert config_hash(compose_config([change])) != config_hash(base)


def test_own_configuration_folder(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "deep_gin.yaml").write_text(
        "defaults:\n  - gin\n\nname: deep_gin\nnum_layers: 12\n"
    )
    config = compose_config(["model=deep_gin"], tmp_path)
    assert config.model.num_layers == 12
    with pytest.raises(RequestError, match="Did you mean 'deep_gin'"):
        compose_config(["model=deep_gni"], tmp_path)
    with pytest.raises(RequestError, match="there is no such folder"):
        compose_config([], tmp_path / "absent")


def test_composing_and_refusing_import_no_torch() -> None:
    code = (
        "import sys\n"
        "from unionsnn.config.compose import RequestError, compose_config, completions\n"
        "compose_config([])\n"
        "assert 'model=gin' in completions('model=')\n"
        f"for case in {[case[0] for case in REFUSALS]!r}:\n"
        "    try:\n"
        "        compose_config(case)\n"
        "    except RequestError:\n"
        "        continue\n"
        "    raise SystemExit(f'{case} was accepted')\n"
        "heavy = {'torch', 'pytorch_lightning', 'torch_geometric'} & set(sys.modules)\n"
        "raise SystemExit(sorted(heavy) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("overrides", "radius"),
    [
        ([], [1, 2, 3]),
        (["gate.features=[raw]"], [1, 2, 3]),
        (["model=gin"], [1, 2, 3]),
        (["gate=paper"], [1]),
        (["gate=authors-code"], [1]),
        (["gate.features=[excess]"], [1, 2, 3]),
        (["data=cora"], [1]),
        (["coefficient=overlap"], [1]),
        (["coefficient=curvature"], [1]),
        (["coefficient.radius=2"], [2]),
        (["gate=paper", "coefficient.radius=[1,3]"], [1, 3]),
    ],
)
def test_the_radius_follows_gate_task_and_coefficient(
    overrides: list[str], radius: list[int]
) -> None:
    assert compose_config(overrides).coefficient.radius == radius


def test_the_coefficient_is_brought_into_canonical_form() -> None:
    section = compose_config(["coefficient.descriptor=curvature", "coefficient.radius=2"])
    assert section.coefficient.encoding is None
    assert section.coefficient.radius == [2]
    assert compose_config(["coefficient.radius=[3,1]"]).coefficient.radius == [1, 3]


@pytest.mark.parametrize(
    ("data", "norm", "exponent"), [("mutag", "batch", 2.0), ("cora", "layer", 1.0)]
)
def test_norm_and_exponent_follow_the_task(data: str, norm: str, exponent: float) -> None:
    config = compose_config([f"data={data}", "model=graphsnn", "coefficient=count"])
    assert config.model.norm == norm
    assert config.model.coefficient.exponent == exponent
    assert config.coefficient.exponent == exponent
    given = compose_config([f"data={data}", "model.norm=none", "coefficient=count",
                            "coefficient.exponent=3"])  # fmt: skip
    assert (given.model.norm, given.coefficient.exponent) == ("none", 3)


def test_the_coefficient_of_the_layers_is_not_the_gates() -> None:
    plain = compose_config(["model=union_graphsnn"])
    assert plain.model.coefficient.substructure == "overlap"
    assert plain.coefficient.substructure == "union"
    other = compose_config(["model=union_graphsnn", "model.coefficient.exponent=1"])
    assert differing_keys(plain, other) == ["model.coefficient.exponent"]
    assert config_hash(plain) != config_hash(other)
    with pytest.raises(RequestError, match=r"model\.coefficient\.radius is \[1, 2\]"):
        compose_config(["model=graphsnn", "model.coefficient.radius=[1,2]"])
