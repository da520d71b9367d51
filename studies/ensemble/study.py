"""The study of the ensembles, as the catalogue finds it."""

from __future__ import annotations

from ..running.study import Study
from .report import render_study, study_excerpt, study_figures, tables_markdown
from .tasks import study_tasks
from .verdicts import verdicts

STUDY = Study(
    name="ensemble",
    title="What Pochelu et al. say about ensembles, and what came out here",
    tasks=study_tasks,
    verdicts=verdicts,
    figures=study_figures,
    page=render_study,
    tables=tables_markdown,
    excerpt=study_excerpt,
)
