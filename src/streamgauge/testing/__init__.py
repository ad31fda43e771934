"""Tools for tests of your own mechanisms and connectors. They protect no data.

noise            silent, counted, repeatable and impulse noise; a clock moved by hand
contracts        contract tests of sources, sinks and engines
store_contract   contract test of stores
"""
