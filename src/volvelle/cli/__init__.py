"""The command line: parse, call, print. Nothing heavy is imported until a command runs.

main ──▶ simulate, compare, report, trace, list ──▶ Experiment ──▶ simulate/, report/
"""
