"""The programs that decide the rules: each yields what breaks its own, and nothing where it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from . import code, packing, pages, proofs
from .project import Project

RULES: Mapping[str, Callable[[Project], Iterator[str]]] = {
    "loads": packing.loads,
    "clean-imports": packing.clean_imports,
    "import-budget": packing.import_budget,
    "kernel-range": packing.kernel_range,
    "apart": packing.apart,
    "metadata": packing.metadata,
    "typed": packing.typed,
    "readme": pages.readme,
    "described-settings": packing.described_settings,
    "contracts": proofs.contracts,
    "real-kernel": proofs.real_kernel,
    "nothing-left": proofs.nothing_left,
    "bounded-settings": packing.bounded_settings,
    "secrets": packing.secrets,
    "honest-errors": code.honest_errors,
    "capabilities": code.capabilities,
    "error-table": pages.error_table,
    "documented-settings": pages.documented_settings,
    "user-level": proofs.user_level,
    "crash-tested": proofs.crash_tested,
    "reload": packing.reload,
    "docstrings": code.docstrings,
    "strict-types": code.strict_types,
    "no-blocking": code.no_blocking,
    "stateless-modules": code.stateless_modules,
    "property-tests": proofs.property_tests,
    "benchmark": proofs.benchmark,
}
