"""``slo-scaler replay``: which laws, and all their runs over the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scaler.cli.over_cores import over_cores
from scaler.cli.replay_options import LawWish
from scaler.errors import ConfigError
from scaler.sim.contest import Contender, Contest, Gating, Played, arrivals, best_static, played
from scaler.sim.laws import LAWS, parameters, tuned
from scaler.sim.laws.clairvoyant import Clairvoyant
from scaler.sim.outcome import Row, Side
from scaler.sim.stage import Law

OURS, STATIC, BEST, CLAIRVOYANT = "ours", "static", "static-best", "clairvoyant"
NATURAL = {"kserve-running": "target", "ray-serve": "target_ongoing"}
"""Laws whose documents' number is for no particular engine: they are tried with the safe concurrency, too."""
FIRST_SEED = 1
SAFE = "safe"
"""Stands for the safe concurrency where a parameter is set."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contender and whose side it is on."""

    contender: Contender
    side: Side


@dataclass(frozen=True, slots=True)
class Known:
    """What the contenders are made with. ``warm``: replicas without which no law can keep what was promised."""

    safe_concurrency: float = 1.0
    safe_rate_per_s: float = 1.0
    warm: int = 0


def entries(wish: LawWish, known: Known) -> list[Entry]:
    """Who plays, but for the best static fleet, which must be found first. Raises ConfigError."""
    safe_concurrency = known.safe_concurrency
    changed = _changes(wish.sets, safe_concurrency)
    names = _names(wish.laws)
    if idle := set(changed) - {*names, CLAIRVOYANT}:
        raise ConfigError(f"--set: {', '.join(sorted(idle))} does not play; name it in --laws")
    found = [entry for name in names if name not in {BEST, CLAIRVOYANT} for entry in _entries(name, wish, changed)]
    if wish.laws is None:
        found += [
            Entry(
                Contender(f"{name}, {key} {safe_concurrency:.3g}", tuned(LAWS[name], {key: safe_concurrency})),
                Side.RIVAL,
            )
            for name, key in NATURAL.items()
            if name in LAWS and name not in changed
        ]
    if known.warm and (ours := [entry.contender for entry in found if entry.side is Side.OURS]):
        warmed = replace(ours[0], name=f"{ours[0].name}, {known.warm} warm", warm=known.warm)
        found.insert(len(ours), Entry(warmed, Side.OURS))
    knowing = replace(Clairvoyant(), rate_per_s=known.safe_rate_per_s)
    return [*found, Entry(Contender(CLAIRVOYANT, tuned(knowing, changed.get(CLAIRVOYANT, {}))), Side.REFERENCE)]


def rows(contest: Contest, wanted: Sequence[Entry], attainable: Sequence[float], work: Work) -> list[Row]:
    """Everybody's runs: ours in the order of the entries, rivals by what they served, and then who knew it all."""
    sides = {entry.contender.name: entry.side for entry in wanted}
    runs: dict[str, list[Played]] = {name: [] for name in sides}
    with over_cores(_settle, contest, work.jobs) as executor, _progress((len(wanted) + 1) * work.seeds + 1) as advance:

        def begin(contender: Contender) -> set[Future[Played | Contender]]:
            return {executor.submit(_play, contender, seed) for seed in range(FIRST_SEED, FIRST_SEED + work.seeds)}

        pending = set[Future[Played | Contender]]({executor.submit(_search, tuple(attainable))})
        pending.update(*(begin(entry.contender) for entry in wanted))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for result in (future.result() for future in done):
                advance()
                if isinstance(result, Played):
                    runs[result.name].append(result)
                else:
                    sides[result.name], runs[result.name] = Side.REFERENCE, []
                    pending |= begin(result)
    found = [Row(name, sides[name], tuple(sorted(each, key=lambda run: run.seed))) for name, each in runs.items()]
    order = list(Side)
    return sorted(found, key=lambda row: (order.index(row.side), -row.kept if row.side is Side.RIVAL else 0.0))


@dataclass(frozen=True, slots=True)
class Work:
    """How many runs of each, and how many at once; None: the cores."""

    seeds: int
    jobs: int | None


_played_here: list[Contest] = []
"""What a process plays; each process is told once, since traffic is large."""


def _settle(contest: Contest) -> None:
    _played_here[:] = [contest]
    arrivals(contest, FIRST_SEED)


def _play(contender: Contender, seed: int) -> Played:
    return played(_played_here[0], contender, seed, drawn=seed == FIRST_SEED)


def _search(attainable: tuple[float, ...]) -> Contender:
    found = best_static(_played_here[0], FIRST_SEED, attainable)
    return replace(found, name=f"best {found.name}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """How many runs are done, where somebody watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("replaying", total=total)
        yield lambda: shown.advance(task)


def _names(laws: str | None) -> list[str]:
    if laws is None:
        return [OURS, *(name for name in LAWS if name not in {OURS, STATIC, CLAIRVOYANT})]
    named = [name.strip() for name in laws.split(",") if name.strip()]
    if unknown := [name for name in named if name not in LAWS and name != BEST]:
        raise ConfigError(f"--laws: {', '.join(unknown)}: no such law; there are {', '.join(LAWS)}")
    return list(dict.fromkeys(named))


def _entries(name: str, wish: LawWish, changed: Mapping[str, Mapping[str, float]]) -> Iterator[Entry]:
    law: Law = tuned(LAWS[name], changed.get(name, {}))
    if name != OURS:
        yield Entry(Contender(name, law), Side.REFERENCE if name == STATIC else Side.RIVAL)
        return
    for gating in _gates(wish.gates):
        called = {Gating.IN_PATH: "ours", Gating.POLLED: "ours, polled gate", Gating.NONE: "ours, no gate"}[gating]
        yield Entry(Contender(called, law, gating), Side.OURS)


def _gates(text: str) -> list[Gating]:
    try:
        return list(dict.fromkeys(Gating(word.strip()) for word in text.split(",")))
    except ValueError:
        raise ConfigError(f"--gate: there are {', '.join(Gating)}") from None


def _changes(sets: Sequence[str], safe_concurrency: float) -> dict[str, dict[str, float]]:
    """The parameters of each law that are set. Raises ConfigError."""
    found: dict[str, dict[str, float]] = {}
    for text in sets:
        path, _, value = text.partition("=")
        law, _, name = path.partition(".")
        if law not in LAWS:
            raise ConfigError(f"--set: {law}: no such law; there are {', '.join(LAWS)}")
        if name not in parameters(LAWS[law]):
            raise ConfigError(f"--set: {law} has {', '.join(parameters(LAWS[law])) or 'no parameters'}, and no {name}")
        try:
            found.setdefault(law, {})[name] = safe_concurrency if value == SAFE else float(value)
        except ValueError:
            raise ConfigError(f"--set: {path}: a number is needed, or {SAFE}") from None
    return found
