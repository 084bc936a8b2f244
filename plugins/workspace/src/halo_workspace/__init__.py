"""Agents, prompts and seeds as files in a workspace."""
