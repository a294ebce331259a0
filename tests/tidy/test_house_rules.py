"""What ARCHITECTURE.md promises about the house and no linter checks: sizes, names, who may import what, what torch sees."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

from sentinel.client import run_layout

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(p for room in ("sentinel", "trainer", "cuda_ext") for p in (ROOT / room).rglob("*.py"))
PURE = ("engine", "plan", "policy", "detectors", "streams", "model")
FILE_LINES_MAX = 250  # a tripwire, not a law: a longer file stands in LONG with its reason
FUNCTION_LINES_MAX = 60
KERNEL_LINES_MAX = 300  # a kernel stands beside its launch
PURE_FUNCTION_LINES_MAX = 50
# A file is as long as its subject. Longer than the tripwire are:
LONG = {
    "trainer/config/sections.py": "every setting of a run, one section after another",
    "sentinel/detectors/crash.py": "one verdict on an end, in the order in which its evidence counts",
    "sentinel/streams/change_point.py": "the shapes in which a metric rises, and where each began, told apart side by side",
    "sentinel/client/masking.py": "what a secret looks like, and the one pass that masks it, side by side",
    "sentinel/engine/ladder.py": "from a finding down to the plan of its rung, in the order in which it happens",
    "sentinel/engine/core.py": "the order in which one event is handled, read downward",
    "sentinel/sim/trainer.py": "one simulated trainer, from its start to its exit",
    "sentinel/engine/operator_requests.py": "every request of a person and its answer, read as one",
    "sentinel/sim/run.py": "one simulated run: its supervisors one after the other, the world's side, and the verdict",
    "sentinel/sim/drill_file.py": "one file format, read and checked",
    "sentinel/sim/invariants.py": "what must hold after every event, one inspector",
    "sentinel/sim/processes.py": "the processes of one attempt, with the habits of torchrun and of the keeper, read as one",
    "sentinel/launcher/rank_watch.py": "which process is which rank and how it ended, by every source that tells of it",
    "sentinel/supervisor/daemon.py": "one loop: its turn, and every action under way, read as one",
    "sentinel/launcher/keeper_loop.py": "one keeper: what it decides from the first look at its ranks to the last, in that order",
    "sentinel/launcher/local.py": "one launcher: its settings, how an attempt is started, stopped, and found again",
    "sentinel/launcher/command.py": "one launcher: its settings, its three commands, and what their answers prove",
    "sentinel/launcher/kubernetes/jobsets.py": "one launcher: how a JobSet is looked for, created, awaited, ended and judged",
    "sentinel/launcher/slurm/steps.py": "one launcher: how a step is looked for, started, awaited, ended and judged",
    "sentinel/policy_files/explain.py": "one verb, in the order in which it prints",
    "sentinel/model/actions.py": "one list of everything that is done to the world, each with what it declares",
    "sentinel/policy/expr.py": "one grammar, and the one small parser that reads it",
    "sentinel/policy/schema.py": "one model for each section of a policy, down to the policy itself",
    "sentinel/policy/schema_rungs.py": "one row for each word of a rung, read as one",
    "sentinel/journal/store.py": "one connection: how it is opened, written, read, checked and folded",
    "sentinel/model/facts.py": "one list of everything that is journaled, read as one",
    "sentinel/detectors/hang.py": "the limit, the three kinds of hang, and who remembers the heartbeats, read as one",
    "sentinel/detectors/crash_patterns.py": "one table of what logs say of a death, read from the narrow to the wide",
    "sentinel/detectors/crash_reading.py": "one reading of one writer's lines, with the words it goes by",
    "sentinel/detectors/crash_class.py": "from the lines of all logs down to one death, in the order in which it is decided",
    "sentinel/telemetry/crash_log.py": "one log read backwards and forwards, in the order in which it happens",
    "sentinel/engine/probation.py": "every verdict on what follows a finding: patience, probation, a stop, the end of the run",
    "sentinel/model/readings.py": "one list of everything that can be observed, read as one",
    "sentinel/model/incidents.py": "one incident: how it stands, what was tried, and everything that was found out about it",
    "sentinel/model/state.py": "one state, each part of it with what it means",
    "sentinel/detectors/trend.py": "five metrics, the past of one, and the detector in which two agree, read as one",
    "sentinel/detectors/bank.py": "one object, one short method for each reading and each question",
    "sentinel/detectors/gpu_fault.py": "one table of what each reading means, beside what it leads to",
    "sentinel/detectors/spike.py": "one rule, with every constant it was given",
    "sentinel/policy/inheritance.py": "what one policy keeps of another, read as one",
    "sentinel/journal/dataclass_codec.py": "one codec, one function a kind of type hint",
    "sentinel/journal/lease.py": "one file: what stands in it, how it is renewed, held and let go, and how it is read",
    "sentinel/curves/svg.py": "two frames around one scale",
    "sentinel/terminal/words.py": "a sentence for every fact, action and request, read as one",
    "sentinel/client/torch/attached.py": "one object: what a training loop calls, in the order in which it calls it",
    "sentinel/run_files/stream.py": "one stream, read in four ways over the same few lines",
}
VERBS = {"told", "said", "heard"}  # in an identifier they say that a thing was said, and not what it is
BANNED = {"utils", "util", "helpers", "common", "misc", "base", "manager", "watchdog"}

# One place per dependency (ARCHITECTURE "Who may import what"). A package counts as one place.
ONE_PLACE = {
    "typer": ("sentinel/cli/",),
    "rich": ("sentinel/terminal/",),
    "watchdog": ("sentinel/telemetry/",),
    "sqlite3": ("sentinel/journal/",),
    "yaml": ("sentinel/policy_files/yaml_positions.py",),
    "yamlcore": ("sentinel/policy_files/yaml_positions.py",),
    "pydantic": ("sentinel/policy/schema", "sentinel/trainers/profile.py"),
    "pynvml": ("sentinel/telemetry/nvml_helper.py",),
    "google_crc32c": ("sentinel/telemetry/event_records.py",),
    "re2": ("sentinel/policy/line_patterns.py",),
    "jinja2": ("sentinel/report/html/page.py",),
    "markupsafe": ("sentinel/report/html/page.py",),
    "prometheus_client": ("sentinel/metrics/",),
    "waitress": ("sentinel/web/server.py",),
    "torch": ("sentinel/client/torch/", "sentinel/integrations/"),
    "transformers": ("sentinel/integrations/hf.py",),
    "lightning": ("sentinel/integrations/lightning.py",),
    "torchtitan": ("sentinel/integrations/torchtitan.py",),
}
# Rooms of the trainer that must answer at once, and so load no torch (ARCHITECTURE "Who may import what").
TORCHLESS = (
    "exits", "mesh", "config", "config.sections", "config.loading", "config.changes", "faults", "schedule", "data_order",
    "model.sizes", "printable", "preflight", "preflight.amounts", "preflight.pitfalls", "command_line",
    "checkpoint.verifying", "checkpoint.listing", "checkpoint.committing", "checkpoint.retention", "checkpoint.choosing",
    "checkpoint.__main__", "sample", "show", "__main__",
)  # fmt: skip
FOR_TRAINERS = ("sentinel.client.torch", "sentinel.integrations")  # they alone may import torch, and only trainers import them
# Only these may read a clock: the clock itself, processes with lives of their own, and the trainer's side.
MAY_IMPORT_TIME = ("sentinel/clock.py", "sentinel/launcher/", "sentinel/client/", "sentinel/trainers/")
# The NVML helper is a process because a call to the driver of a sick GPU may never return; the page route `command` is one.
MAY_START_PROCESSES = (
    "sentinel/launcher/", "sentinel/replay/many_logs.py", "sentinel/telemetry/helper_process.py",
    "sentinel/channels/program_starter.py",
)  # fmt: skip


# Of the kernels' room: for the compilers, what names their symbols, and the one command of a GPU machine.
KERNELS_MAY_START_PROCESSES = ("cuda_ext/processes.py",)
KERNEL_SOURCES = sorted(p for end in ("*.h", "*.cpp", "*.cu", "*.cuh") for p in (ROOT / "cuda_ext").rglob(end))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_keep_to_their_budget_and_their_name() -> None:
    faults = []
    for path in SOURCES:
        where, is_long = relative(path), path.read_text(encoding="utf-8").count("\n") > FILE_LINES_MAX
        if is_long and where not in LONG:
            faults.append(f"{where} is long: split it by phenomenon, or give the reason in LONG")
        if where in LONG and not is_long:
            faults.append(f"{where} is no longer long: take it out of LONG")
        if path.stem in BANNED:
            faults.append(f"{where}: a name that says nothing")
    assert not faults, "\n".join(faults)


def test_a_class_has_a_name_of_its_own() -> None:
    """Two classes of one name in one package are distinguished by their imports alone. Private ones are searched for, too."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        if relative(path).startswith("sentinel/"):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(f"{relative(path)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_an_identifier_names_what_it_holds() -> None:
    faults = [f"{relative(path)}: its name" for path in SOURCES if VERBS & set(path.stem.split("_"))]
    for path in SOURCES:
        for node in nodes(path):
            names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname")]
            bad = [name for name in names if isinstance(name, str) and VERBS & set(name.lower().split("_"))]
            faults += [f"{relative(path)}:{getattr(node, 'lineno', 0)} {name}" for name in bad]
    assert not faults, "\n".join(faults)


def test_functions_keep_to_their_budget() -> None:
    faults = []
    for path in SOURCES:
        limit = PURE_FUNCTION_LINES_MAX if path.relative_to(ROOT).parts[1] in PURE else FUNCTION_LINES_MAX
        for node in nodes(path):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > limit:
                    faults.append(f"{relative(path)}:{node.lineno} {node.name} has {length} lines, the budget is {limit}")
    assert not faults, "\n".join(faults)


def test_each_dependency_has_one_place() -> None:
    faults = []
    for path in SOURCES:
        where, names = relative(path), imported(path)
        if not where.startswith("sentinel/"):
            continue
        for name, places in ONE_PLACE.items():
            if name in names and not where.startswith(places):
                faults.append(f"{where} imports {name}; only {places} may")
        if "time" in names and not where.startswith(MAY_IMPORT_TIME):
            faults.append(f"{where} imports time; take now_s as an argument")
        if names & {"subprocess", "multiprocessing"} and not where.startswith(MAY_START_PROCESSES):
            faults.append(f"{where} starts processes; only the launcher may")
    assert not faults, "\n".join(faults)


def test_the_kernels_room_starts_compilers_and_little_else() -> None:
    kernels = [path for path in SOURCES if relative(path).startswith("cuda_ext/")]
    starting = [relative(path) for path in kernels if imported(path) & {"subprocess", "multiprocessing"}]
    faults = [f"{where} starts processes" for where in starting if not where.startswith(KERNELS_MAY_START_PROCESSES)]
    assert not faults, "\n".join(faults)


def test_sources_of_kernels_keep_to_their_budget() -> None:
    long = [path for path in KERNEL_SOURCES if path.read_text(encoding="utf-8").count("\n") > KERNEL_LINES_MAX]
    assert not long, "\n".join(f"{relative(path)} has outgrown its room: split it by phenomenon" for path in long)


def test_asking_for_the_kernels_room_loads_no_torch() -> None:
    """Its command answers a wrong word at once, and an installation without torch can ask it what could be built."""
    names = ("sources", "processes", "compilers", "build", "tiers", "registers", "registry", "__main__")
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint('torch' in sys.modules)"
    words = [sys.executable, "-c", code, "cuda_ext", *(f"cuda_ext.{name}" for name in names)]
    assert subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True).stdout == "False\n"


# rich's own: one argument a column
TAKE_ANY_NUMBER = {("trainer/data/__main__.py", "Progress"), ("sentinel/terminal/replay_table.py", "Progress")}


def test_no_record_is_made_by_unpacking_a_tuple() -> None:
    """`Spec(*place, env)`: nobody sees which value becomes which field, and a field that is put between shifts them all."""
    classes = {node.name for path in SOURCES for node in nodes(path) if isinstance(node, ast.ClassDef)}
    faults = []
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and any(isinstance(argument, ast.Starred) for argument in node.args):
                name = str(getattr(node.func, "id", getattr(node.func, "attr", "")))
                if name in classes and (relative(path), name) not in TAKE_ANY_NUMBER:
                    faults.append(f"{relative(path)}:{node.lineno} {ast.unparse(node)[:80]}: name each field")
    assert not faults, "\n".join(faults)


def test_no_tuple_is_packed_to_be_unpacked_among_other_arguments() -> None:
    """`budget = (a, b); judge(policy, *budget, c)`: the same, with a function. Name the arguments."""
    faults = []
    for path in SOURCES:
        for function in (node for node in nodes(path) if isinstance(node, ast.FunctionDef)):
            packed = {
                node.targets[0].id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Name)
            }
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and len(node.args) > 1):
                starred = {one.value.id for one in call.args if isinstance(one, ast.Starred) and isinstance(one.value, ast.Name)}
                if starred & packed and not relative(path).startswith("cuda_ext/bench/"):  # operands of one operation
                    faults.append(f"{relative(path)}:{call.lineno} {ast.unparse(call)[:80]}: name each argument")
    assert not faults, "\n".join(faults)


def test_no_tuple_is_unpacked_among_the_arguments_of_our_functions() -> None:
    """`judge(policy, *budget, c)`: the same, wherever the tuple comes from. What takes any number of arguments is not meant."""
    defined = [node for path in SOURCES for node in nodes(path) if isinstance(node, ast.FunctionDef)]
    open_ended = {one.name for one in defined if one.args.vararg is not None}
    ours = {one.name for one in defined} - open_ended
    faults = []
    for path in SOURCES:
        for call in (node for node in nodes(path) if isinstance(node, ast.Call) and len(node.args) > 1):
            own = call.func.attr if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self" else ""
            name = call.func.id if isinstance(call.func, ast.Name) else own
            if name in ours and any(isinstance(argument, ast.Starred) for argument in call.args):
                faults.append(f"{relative(path)}:{call.lineno} {ast.unparse(call)[:80]}: name each argument")
    assert not faults, "\n".join(faults)


def test_one_place_knows_where_an_attempt_and_an_incident_lie() -> None:
    for path in SOURCES:
        if path.name != "run_layout.py":
            text = path.read_text(encoding="utf-8")
            assert not [word for word in ("attempts", "incidents") if f'"{word}" /' in text], f"{relative(path)}: ask run_layout"


def test_one_place_knows_the_names_of_a_runs_files() -> None:
    names = {value for name, value in vars(run_layout).items() if name.isupper() and "." in value}
    assert {"sentinel.db", "run.json", "lease.json"} <= names
    for path in SOURCES:
        if relative(path).startswith("sentinel/") and path.name != "run_layout.py":
            found = [node.value for node in nodes(path) if isinstance(node, ast.Constant) and node.value in names]
            assert not found, f"{relative(path)} spells {found}: ask run_layout"


def test_what_stands_directly_in_sentinel_can_be_counted_on_two_hands() -> None:
    loose = sorted(path.name for path in (ROOT / "sentinel").glob("*.py") if path.name != "__main__.py")
    assert len(loose) <= 8, f"{loose}: a ninth module belongs into the room whose subject it is"


def test_the_supervisor_never_loads_torch() -> None:
    modules = [relative(path).removesuffix(".py").replace("/", ".") for path in SOURCES if relative(path).startswith("sentinel/")]
    names = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    names = [name for name in names if not name.startswith(FOR_TRAINERS)]
    assert "sentinel.client.session" in names
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "print(sorted({'torch', 'numpy', 'trainer'} & set(sys.modules)))"
    words = [sys.executable, "-c", code, *names]
    found = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert found.stdout.strip() == "[]"


def test_the_trainer_meets_sentinel_only_through_its_client() -> None:
    for path in sorted((ROOT / "trainer").rglob("*.py")):
        for node in nodes(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                known = name.split(".")[0] != "sentinel" or name.split(".")[:2] == ["sentinel", "client"]
                assert known, f"{relative(path)}:{node.lineno} imports {name}"


def test_what_answers_at_once_in_the_trainer_loads_no_torch() -> None:
    """A wrong setting, --help, --check's amounts and a look at checkpoints do not wait seconds for an import."""
    code = (
        "import sys, importlib\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module('trainer.' + name)\n"
        "    print(name, *sorted({'torch', 'numpy'} & set(sys.modules)), flush=True)\n"
    )
    words = [sys.executable, "-c", code, *TORCHLESS]
    found = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    assert found.stdout.split("\n")[:-1] == list(TORCHLESS), "a name behind a module is what came with it"
