"""A markdown model, its renderers and a splitter."""
