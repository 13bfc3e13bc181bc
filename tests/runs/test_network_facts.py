"""The facts of the shipped networks, kept so that they are told without torch.

After a change that is meant: UNIONSNN_FREEZE=all pytest tests/runs/test_network_facts.py
"""

from __future__ import annotations

import json
import os

import pytest

from unionsnn.config.keys import groups
from unionsnn.runs import networks


def test_what_is_kept_is_what_the_classes_say() -> None:
    (group,) = (each for each in groups() if each.name == "model")
    rows = {}
    for name, title in group.options.items():
        facts = networks.made_facts(name, title).to_json()
        del facts["name"], facts["title"]
        rows[name] = {"request": networks.request_of(name), "facts": facts}
    if os.environ.get("UNIONSNN_FREEZE") == "all":
        networks.KEPT.write_text(json.dumps(rows, indent=1) + "\n")
    assert json.loads(networks.KEPT.read_text()) == rows


def test_a_network_of_another_request_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    (kept,) = networks.networks(["gin"])
    monkeypatch.setattr(networks, "made_facts", lambda name, title: (name, title))
    assert networks.networks(["gin"]) == [kept]
    monkeypatch.setattr(networks, "request_of", lambda name: "another")
    assert networks.networks(["gin"]) == [("gin", kept.title)]
