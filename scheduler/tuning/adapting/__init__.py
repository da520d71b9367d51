"""Adaptation of active exits while serving: alarms, evidence, PAME's two rules and the plan they go by."""
