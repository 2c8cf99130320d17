# Sourced before each golden script.

# archive FILE [EXTRA_LINE_OF_SETTINGS]: a ZIP that has settings, but no model.
archive() {
  python3 "$HELPERS/make_archive.py" "$@"
}

# live NAME COMMAND...: runs the command while something answers as the run of that name.
live() {
  python3 "$HELPERS/fake_run.py" "$@"
}
