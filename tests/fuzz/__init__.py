"""Made-up requests, schedules and bytes: what nobody thought of, the same ones in every run."""
