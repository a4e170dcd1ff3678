"""Artifacts for the export's tests."""

from tests.artifact.programs import echo_artifact, linear_artifact

__all__ = ["echo_artifact", "linear_artifact"]
