"""Secrets in text and in configurations: passwords of URLs, and what is named as a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MASK = "***"

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:/+"
# A password that should have been quoted may hold : / and @, so it ends at the last @.
_PASSWORD = re.compile(rf"(?P<kept>{_SCHEME}[^\s:/?#@]*:)\S*@")
_WHOLE_PASSWORD = re.compile(rf"^(?P<kept>{_SCHEME}[^\s:/?#@]*:).*@", re.DOTALL)
_TOKEN = re.compile(r"(?P<kept>https?:/+)[^\s:/?#@]+@", re.IGNORECASE)
_MISTYPED = re.compile(r"(?P<kept>(?:^|(?<=[\s'\"(=]))[^\s:@]+:)(?!/)[^\s@]+@(?=\w)")
_PARAMETER = re.compile(
    r"(?P<kept>\b(?:\w+[-_.])*(?:ssl)?(?:password|passwd|secret|token|api_?key|access_?key|"
    r"signature)=|[?&](?:sig|key)=)[^\s&;,'\"<>]+",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"(PASSWORD|PASSWD|_PWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY)$", re.IGNORECASE)
_KEY = re.compile(
    r"^token$|(password|passwd|secret|api_?key|access_?key|auth_token|access_token)$", re.IGNORECASE
)

_REFERENCE = re.compile(r"oc\.env:\s*['\"]?(\w+)")

_SHORTEST = 8
"""Length from which a variable's value is looked for in text; a shorter one is part of words."""


def masked(text: str) -> str:
    """Return a message without passwords.

    Masked are the password of a URL, also of a mistyped one, a URL's parameters such as
    ``password=``, and values of environment variables such as ``WANDB_API_KEY``.
    """
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _VARIABLE.search(name):
            text = text.replace(value, MASK)
    for pattern in (_PASSWORD, _TOKEN, _MISTYPED):
        if "@" in text:
            text = pattern.sub(rf"\g<kept>{MASK}@", text)
    return _PARAMETER.sub(rf"\g<kept>{MASK}", text)


def referenced_secrets(texts: Iterable[object]) -> tuple[str, ...]:
    """Return the values of secret environment variables to which a configuration refers.

    Args:
        texts: Its values before they are resolved; ``${oc.env:HUB_TOKEN}`` is such a reference,
            while other variables may determine a result and are recorded.
    """
    names = {name for text in texts for name in _REFERENCE.findall(str(text))}
    held = {os.environ.get(name, "") for name in names if _VARIABLE.search(name)}
    return tuple(sorted(held - {""}, key=len, reverse=True))


def masked_content(content: Any, secrets: Sequence[str] = ()) -> Any:
    """Return a configuration as it is recorded: without passwords of URLs, and without secrets.

    It depends on the configuration alone, so that what is named after it stays the same.

    Args:
        content: Plain types; strings under keys such as ``token`` or ``password`` are secrets.
        secrets: Further values that are secrets.
    """
    if isinstance(content, Mapping):
        return {
            key: MASK
            if isinstance(value, str) and _KEY.search(str(key))
            else masked_place(value)
            if isinstance(value, str) and key == "mirror"
            else masked_content(value, secrets)
            for key, value in content.items()
        }
    if isinstance(content, list):
        return [masked_content(value, secrets) for value in content]
    if not isinstance(content, str):
        return content
    for secret in secrets:
        if content == secret or len(secret) >= _SHORTEST:
            content = content.replace(secret, MASK)
    if "://" in content:
        text = _WHOLE_PASSWORD.sub(rf"\g<kept>{MASK}@", content)
        return _PARAMETER.sub(rf"\g<kept>{MASK}", _TOKEN.sub(rf"\g<kept>{MASK}@", text))
    return content


def masked_place(place: str) -> str:
    """Return the address of a mirror as it is shown: without what stands before its last @."""
    return masked(masked_content(place))


def secret_values(content: Any) -> tuple[str, ...]:
    """Return the strings under keys such as ``token`` in plain types."""
    found: list[str] = []
    if isinstance(content, Mapping):
        for key, value in content.items():
            if isinstance(value, str) and value and _KEY.search(str(key)):
                found.append(value)
            else:
                found += secret_values(value)
    elif isinstance(content, list | tuple):
        for value in content:
            found += secret_values(value)
    return tuple(found)


def is_masked(text: str) -> bool:
    """Return whether a recorded URL lacks its password."""
    return f"{MASK}@" in text or f"={MASK}" in text
