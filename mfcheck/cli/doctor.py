"""`mfcheck doctor`: versions, devices, BLAS, and what is missing."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

NEEDED = ("numpy", "scipy", "torch", "hypothesis", "matplotlib", "pytest", "joblib", "POT", "jinja2", "rich", "typer")
OPTIONAL = {
    "tokenizers": "lm: byte-pair WikiText-2",
    "datasets": "lm: downloads WikiText-2",
    "distributed": "cluster: sweeps on Dask",
    "py-pde": "bench: the grid solver's peer",
    "fplanck": "bench: the grid solver's peer",
    "torchsde": "bench: the particles' peer",
    "diffrax": "bench: the particles' peer",
}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what mfcheck finds here. Exit code 1 where something that it needs is missing."""
    facts = _facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    else:
        for key, value in facts.items():
            shown = "; ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            typer.echo(f"{key + ':':12} {shown or 'none'}")
    raise typer.Exit(1 if facts["missing"] or "not found" in facts["claims"] else 0)


def _facts() -> dict[str, Any]:
    import torch
    from threadpoolctl import threadpool_info

    from mfcheck import catalogue
    from mfcheck.errors import InputError

    found = {name: _version(name) for name in (*NEEDED, *OPTIONAL)}
    pools = {
        f"{pool['internal_api']} {pool.get('version')}": f"{pool['num_threads']} threads" for pool in threadpool_info()
    }
    try:
        claims = f"{len(catalogue.claims())} in {catalogue.home() / 'paper_checks'}"
    except InputError as error:
        claims = f"not found: {error}"
    return {
        "mfcheck": _version("mfcheck") or "not installed: imported from a folder",
        "python": platform.python_version(),
        "system": f"{platform.platform()}, {os.cpu_count()} cores",
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu (torch sees no CUDA device)",
        "libraries": {name: found[name] for name in NEEDED if found[name]},
        "BLAS": pools,
        "claims": claims,
        "missing": ", ".join(name for name in NEEDED if not found[name]),
        "optional": {name: found[name] or f"not installed ({use})" for name, use in OPTIONAL.items()},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
