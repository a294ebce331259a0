"""How a trainer under a profile shows a number that it does not show yet: where the profile reads it, and nowhere else."""

from __future__ import annotations

from typing import assert_never

from sentinel.trainers.profile import Metrics

PRINTED_LINE = "step: 120 | loss: 2.3172 | grad_norm: 0.84 | lr: 3.0e-04"  # telemetry reads it: a test holds it to that


def how_to_add_metric(metrics: Metrics, name: str) -> str:
    """One line that would add `name` to the rows."""
    where = " or ".join(metrics.path)
    it, beside = ("the loss", "") if name == "loss" else ("it", " beside the loss")
    match metrics.from_:
        case "output":
            return f"print {it}{beside}: {PRINTED_LINE}"
        case "file":
            return f"log {it} under the name {name}{beside}, into {where}"
        case "tensorboard":
            return f'add_scalar("{name}", value, step){beside}, into {where}'
        case "wandb":
            return f'wandb.log({{"{name}": value}}, step=step){beside}'
        case "mlflow":
            return f'mlflow.log_metric("{name}", value, step=step){beside}'
        case "trainer_state":
            return f'log {it}: Trainer.log({{"{name}": value}}) stands in trainer_state.json with the next checkpoint'
        case "none":
            return "the profile reads no numbers: take one that does (sentinel trainers list), or call sentinel.client"
        case _:
            assert_never(metrics.from_)


def how_to_add_rows(metrics: Metrics, profile: str) -> str:
    """The same where no row comes at all."""
    match metrics.from_:
        case "output":
            return f"print a line such as '{PRINTED_LINE}', or name where the numbers are: --trainer {profile}:metrics=FILE"
        case "none":
            return how_to_add_metric(metrics, "loss")
        case "file" | "tensorboard" | "wandb" | "mlflow" | "trainer_state":
            named = f"--trainer {profile}:metrics=FILE, or metrics=output"
            return f"{how_to_add_metric(metrics, 'loss')}; or name where the numbers are: {named}"
        case _:
            assert_never(metrics.from_)
