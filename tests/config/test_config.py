"""Requests: what composes, what is refused, and how it is said."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.identity import config_hash, differing_keys
from unionsnn.config.schema import Config

REFUSALS: list[tuple[list[str], list[str], str]] = [
    (["modle=gin"], ["config.unknown_key"], "Did you mean 'model'?"),
    (["model=gni"], ["config.unknown_option"], "Did you mean 'gin'?"),
    (["data=mutga"], ["config.unknown_option"], "Did you mean 'mutag'?"),
    (
        ["data=ogbg-moltox21"],
        ["config.unknown_option"],
        "type data=ogb data.name=ogbg-moltox21.",
    ),
    (["data.num_workers=4"], ["config.unknown_key"], "gathered from tensors in memory"),
    (["optimizer.zeal=3"], ["config.unknown_key"], "does not exist. Keys there: optimizer."),
    (["model.hiden_channels=3"], ["config.unknown_key"], "Did you mean 'model.hidden_channels'?"),
    (["optimizer.lr=fast"], ["config.type"], ""),
    (["optimizer.lr=0"], ["config.value"], ""),
    (["model.num_layers=0"], ["config.value"], ""),
    (["model.num_layers=2.5"], ["config.type"], ""),
    (["model.num_layers=true"], ["config.type"], ""),
    (["model.residual=3"], ["config.type"], ""),
    (["model.dropout=1.5"], ["config.value"], ""),
    (["model.readout=summ"], ["config.value"], ""),
    (["gate.features=[rwa]"], ["config.value"], ""),
    (["coefficient.radius=-1"], ["coefficient.radius"], ""),
    (["coefficient.radius=two"], ["coefficient.radius"], ""),
    (["coefficient.descriptor=pth"], ["coefficient.unknown"], "Did you mean 'path'?"),
    (["coefficient=laplacian", "coefficient.encoding=entry_sum"], ["coefficient.encoding"], ""),
    (["coefficient.alpha=0.3"], ["coefficient.no_effect"], ""),
    (
        ["coefficient=overlap", "gate.features=[raw,excess]"],
        ["config.gate"],
        "type gate.features=[raw,cyclomatic].",
    ),
    (
        ["coefficient=overlap", "gate.features=[cycles]"],
        ["config.no_effect"],
        "gate.features=[raw,cycles].",
    ),
    (["coefficient.radius=2", "gate.features=[cycles]"], ["config.no_effect"], ""),
    (["experiment=zinc", "protocol=holdout"], ["config.no_effect"], ""),
    (["coefficient=curvature", "gate=paper"], ["config.gate"], "type gate.features=[raw]."),
    (["coefficient.control=shufled"], ["config.value"], ""),
    (["model=gin", "coefficient.control=shuffled"], ["config.control"], ""),
    (["data=tu"], ["config.missing"], "type data.name=..."),
    (["data.features=lables"], ["config.features"], ""),
    (["protocol=cross_validation", "protocol.folds=2"], ["config.value"], ""),
    (["data=mutag", "data.task=link_prediction"], ["data.task"], "reads no labelled pairs"),
    (
        ["data=pyg", "data.dataset=torch_geometric.datasets.ZINC", "data.task=link_prediction"],
        ["data.task"],
        "type data=pcqm_contact",
    ),
    (["protocol.select_on=test_accuracy"], ["config.metric"], ""),
    (["protocol.stop_on=val_mae"], ["config.metric"], ""),
    (["protocol.report=val_loss"], ["config.metric"], ""),
    (["protocol.only=[3]"], ["config.only"], ""),
    (["protocol.workers=2", "trainer.devices=2"], ["config.workers"], ""),
    (["model.hidden_channels=8", "model.parameter_budget=1000"], ["config.budget"], ""),
    (["data.name=../../evil"], ["config.value"], ""),
    (["model.name=a/b"], ["config.value"], ""),
    (["optimizer.lr=inf"], ["config.value"], ""),
    (["gate.features=[]"], ["config.value"], ""),
    (["nonsense"], ["config.syntax"], ""),
    (["seed=1,2"], ["config.sweep"], "unionsnn sweep STUDY 'seed=choice(1,2)'"),
    (["model=gin,gat"], ["config.sweep"], "type unionsnn compare model=gin model=gat; to"),
    (
        ["optimizer.lr=interval(0.1,1)"],
        ["config.sweep"],
        "unionsnn sweep STUDY 'optimizer.lr=interval(0.1,1)'",
    ),
    (["seed=-1"], ["config.value"], ""),
    (["=1"], ["config.syntax"], ""),
    (["~seed"], ["config.missing"], "type seed=..., or leave out what deletes it (~seed)."),
    (["~data"], ["config.missing"], "type data=..., one of 4cycles,"),
    (["~data.variant"], ["config.missing"], "type data.variant=..."),
    (["run_dir=übung"], ["config.syntax"], "type 'run_dir=\"übung\"'"),
    (["run_dir=~/a b"], ["config.syntax"], "type 'run_dir=\"~/a b\"'"),
    (['run_dir=a"b'], ["config.syntax"], 'type \'run_dir="a\\"b"\''),
    (["model.name=a(b", "seed=1,2"], ["config.syntax", "config.sweep"], ""),
    (["data.variant=foo"], ["config.value"], ""),
    (["data=mutag", "data.class_weights=balance"], ["config.value"], "must be balanced or list of"),
    (["data=mutag", "data.class_weights=[1.0,-5.0]"], ["config.value"], "of number ≥ 0 (at least"),
    (["trainer.swa_start=1.5"], ["config.value"], "trainer.swa_start is 1.5; it must be whole"),
    (["optimizer.betas=0.9"], ["config.value"], "optimizer.betas is 0.9"),
    (["optimizer.betas=[0.9]"], ["config.value"], "two numbers"),
    (["lr=0.1"], ["config.unknown_key"], "Did you mean 'optimizer.lr'?"),
    (["optimizer.amsgrad=true"], ["config.unknown_key"], "type +optimizer.amsgrad=true."),
    (["optimizer.amsgrat=true"], ["config.unknown_key"], "Keys there"),
    (["data.num_train=0"], ["config.value"], ""),
    (["data.length=5"], ["config.value"], ""),
    (["data=zinc10k", "data.size=half"], ["config.value"], ""),
    (["data=photo", "data.train_share=1.5"], ["config.value"], ""),
    (["+data.foo=1"], ["config.unknown_key"], ""),
    (["data.max_pairs=0"], ["config.value"], ""),
    (["data.max_pairs=2.5"], ["config.value"], ""),
    (["data=cora", "data.max_pairs=9"], ["config.max_pairs"], ""),
    (["model=union_gin", "gate=none"], ["config.gate"], "type model=gin for the plain model."),
    (["model=unionormer", "gate=none"], ["config.gate"], "type model=graphormer for the plain"),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda c: " ".join(c[0]))
def test_a_wrong_request_says_what_to_do(case: tuple[list[str], list[str], str]) -> None:
    overrides, codes, hint = case
    with pytest.raises(RequestError) as refusal:
        compose_config(overrides)
    assert refusal.value.codes == codes
    key = overrides[-1].lstrip("+~").partition("=")[0]
    assert key in str(refusal.value)
    assert hint in str(refusal.value)


@pytest.mark.parametrize("value", ["übung", "~/x", "a(b", 'a"b', "my runs/ü"])
def test_the_advised_quotes_are_right(value: str) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config([f"run_dir={value}"])
    (advised,) = shlex.split(str(refusal.value).partition("; type ")[2])
    assert compose_config([advised]).run_dir == value


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config(["model.num_layers=0", "model.dropout=2", "optimizer.lr=-1"])
    assert refusal.value.codes == ["config.value"] * 3
    with pytest.raises(RequestError) as refusal:
        compose_config(["modle=gin", "optimizer.lr=fast"])
    assert refusal.value.codes == ["config.unknown_key", "config.type"]


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
        "ogb": ["data.name=ogbg-moltox21"],
        "folder": ["data.path=my_graphs"],
        "pyg": ["data.dataset=my_package.MySet"],
        "pyg_nodes": ["data.dataset=my_package.MySet"],
        "pyg_links": ["data.dataset=my_package.MySet"],
    }
    extra = given.get(option, [])
    config = compose_config([*extra, f"{group}={option}"])
    assert config_hash(config) == config_hash(compose_config([f"{group}={option}", *extra]))
    assert Config.from_dict(config.to_dict()) == config


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
    reordered = dict(reversed(list(base.to_dict().items())))
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
    with pytest.raises(RequestError) as refusal:
        compose_config([], tmp_path / "absent")
    assert refusal.value.codes == ["config.folder"]


def test_a_configuration_is_changed_by_replacing_keys_only() -> None:
    config = compose_config(["model=graphsnn"])
    changed = config.replace({"trainer.threads": 3, "model.coefficient.exponent": 1.0, "seed": 5})
    assert (changed.trainer.threads, changed.seed) == (3, 5)
    assert differing_keys(config, changed) == ["model.coefficient.exponent", "seed"]
    assert config == compose_config(["model=graphsnn"])
    with pytest.raises(KeyError, match="thread"):
        config.replace({"trainer.thread": 3})
    with pytest.raises(ValidationError):
        config.trainer.threads = 3  # type: ignore[misc]


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
        (["gate.features=[cycles]"], [1]),
        (["gate.features=[cycles,marked]"], [1, 2, 3]),
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


def test_a_gate_of_the_configuration_reads_every_feature() -> None:
    from unionsnn.nn.features import FEATURES

    assert compose_config([f"gate.features=[{','.join(FEATURES)}]"]).gate.features == [*FEATURES]
    with pytest.raises(RequestError, match=", ".join(f"'{name}'" for name in FEATURES[:-1])):
        compose_config(["gate.features=[a]"])


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
    with pytest.raises(RequestError, match=r"model\.coefficient\.radius"):
        compose_config(["model=graphsnn", "model.coefficient.radius=[1,2]"])


def test_a_new_key_of_a_data_format_is_in_the_hash_only_if_it_is_given() -> None:
    plain = compose_config(["data=mutag"])
    assert "symmetrize" not in plain.to_dict()["data"]
    assert compose_config(["data=mutag", "data.symmetrize=true"]).data.symmetrize is True
    assert config_hash(compose_config(["data=mutag", "data.symmetrize=null"])) == config_hash(plain)
    given = ["data=folder", "data.path=x"]
    dropped = compose_config([*given, "data.unlabelled=drop"])
    assert config_hash(dropped) != config_hash(compose_config(given))
    assert (
        compose_config([*given, "data.unlabelled=null"]).to_dict()
        == compose_config(given).to_dict()
    )
    with pytest.raises(RequestError, match="it must be 'drop', 'class' or 'mask'"):
        compose_config([*given, "data.unlabelled=keep"])
