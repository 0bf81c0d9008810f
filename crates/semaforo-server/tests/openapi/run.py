#!/usr/bin/env python3
"""Lets schemathesis compare a server with its /openapi.json: without tokens, and with.

    run.py PROGRAM FOLDER

PROGRAM is `semaforo`; in FOLDER a virtual environment is made, or found."""

import json
import os
import pathlib
import re
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "0123456789abcdef0123456789abcdef"


def install(folder):
    """Makes the virtual environment, with the versions that are listed."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp = folder / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        venv.create(folder, clear=True, with_pip=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--requirement", HERE / "requirements.txt"], check=True)
        stamp.write_text(wanted)


def compare(folder, program, arguments, headers):
    """Whether a server with these arguments does what its document says."""
    command = [program, "serve", "--journal", "memory", "--data", folder / "data", "--log", "error"]
    places = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    server = subprocess.Popen([*command, *places, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        found = (re.match(r"http on ([\d.:]+)", line) for line in server.stdout)
        url = "http://" + next(filter(None, found))[1]
        run = [folder / "bin" / "schemathesis", "--config-file", HERE / "schemathesis.toml", "run"]
        said = [word for header in headers.items() for word in ("--header", ": ".join(header))]
        asked = {
            "SEMAFORO_OPENAPI_URL": url,
            "SEMAFORO_OPENAPI_HEADERS": json.dumps(headers),
            "SEMAFORO_OPENAPI_HOOKS": str(HERE / "hooks.py"),
        }
        outcome = subprocess.run(
            [*run, *said, f"{url}/openapi.json"], cwd=folder, env={**os.environ, **asked}
        )
        if server.poll() is not None:
            print(f"the server has ended: {server.returncode}", file=sys.stderr)
            return False
        return outcome.returncode == 0
    finally:
        server.terminate()
        server.wait()


def main():
    program, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    install(folder)
    tokens = folder / "tokens"
    with open(os.open(tokens, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{TOKEN} rights=use,create,observe\n")
    without = compare(folder, program, [], {})
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    guarded = compare(folder, program, ["--tokens", tokens], bearer)
    sys.exit(0 if without and guarded else 1)


main()
