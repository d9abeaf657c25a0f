"""What people see of a run: live progress, tables, JUnit, Markdown; all but the live view come from results.jsonl."""
