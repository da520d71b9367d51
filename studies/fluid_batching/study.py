"""The study of Fluid Batching, as the catalogue finds it."""

from __future__ import annotations

from ..running.study import Study
from .figures import study_figures
from .report import render_study, study_excerpt
from .tables import tables_markdown
from .tasks import study_tasks
from .verdicts import verdicts

STUDY = Study(
    name="fluid-batching",
    title="What Fluid Batching says about serving, and what came out here",
    tasks=study_tasks,
    verdicts=verdicts,
    figures=study_figures,
    page=render_study,
    tables=tables_markdown,
    excerpt=study_excerpt,
)
