"""What is computed, as formal objects with readers and interpreters. Nothing here knows of networks or of training.

circuits/      Boolean circuits: gates, layers, generators, AIGER and text files
machines/      Turing machines: interpreter with traces, YAML files, a library, random ones
automata/      regular languages: automata, what can be decided of them, regular expressions, YAML files
groups/        finite groups: Cayley tables with their laws checked, named families, files
reading.py     what the readers share: text files, and YAML with places
"""
