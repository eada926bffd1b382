"""The dashboard: a web page of plain ES modules, without a build step. See README.md."""
