"""Renderables: functions from values and a size to text, without widgets, the app or the clock."""
