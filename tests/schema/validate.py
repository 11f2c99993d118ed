#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates what the daemon wrote against docs/schema, and the schemas against documents that are wrong.

usage: validate.py SCHEMAS DOCUMENTS

DOCUMENTS is a file of lines {"schema": "meta", "definition": null, "document": {…}}. Every document must be
valid; and for each one, every required member that is taken out, and every member whose value becomes one
of another type, must make it invalid. Prints what it did; exits 1 at the first thing that is not so.
"""
import copy
import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

STRANGERS = [{"a": 1}, [[1]], "\x00", -1.5, True]


def load(directory, name, definition):
    with open(f"{directory}/{name}.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    if definition:
        schema = {"$schema": schema["$schema"], "$defs": schema["$defs"],
                  "$ref": f"#/$defs/{definition}"}
    return schema


def objects(root, schema, document):
    """Every (schema, path) of an object that is described, also through references and conditions."""
    found = []

    def walk(part, here, path):
        if not isinstance(part, dict):
            return
        if "$ref" in part:
            walk(root["$defs"][part["$ref"].rsplit("/", 1)[1]], here, path)
        for branch in part.get("allOf", []):
            if "if" in branch:
                if here.get("type") == branch["if"]["properties"]["type"]["const"]:
                    walk(branch["then"], here, path)
            else:
                walk(branch, here, path)
        for branch in part.get("anyOf", []) + part.get("oneOf", []):
            if here is not None:
                walk(branch, here, path)
        if isinstance(here, dict) and "properties" in part:
            found.append((part, path))
            for name, below in part["properties"].items():
                if name in here:
                    walk(below, here[name], path + [name])
        if isinstance(here, list) and isinstance(part.get("items"), dict):
            for at, element in enumerate(here[:2]):
                walk(part["items"], element, path + [at])

    walk(schema, document, [])
    return found


def place(document, path):
    for step in path:
        document = document[step]
    return document


def fail(sentence, document):
    print(sentence)
    print(json.dumps(document))
    sys.exit(1)


def main(directory, file):
    valid, mutated = 0, 0
    validators = {}
    seen = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            task = json.loads(line)
            key = (task["schema"], task["definition"])
            if key not in validators:
                validators[key] = Draft202012Validator(load(directory, *key))
            validator, document = validators[key], task["document"]
            for error in validator.iter_errors(document):
                fail(f"{key}: {error.json_path}: {error.message[:300]}", document)
            valid += 1
            # A few of a kind are enough to prove that the schema bites.
            kind = (*key, document.get("type"))
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] > 3:
                continue
            for part, path in objects(validator.schema, validator.schema, document):
                for name in part.get("required", []):
                    wrong = copy.deepcopy(document)
                    del place(wrong, path)[name]
                    if validator.is_valid(wrong):
                        fail(f"{key}: valid without {path + [name]}", wrong)
                    mutated += 1
                for name, below in part["properties"].items():
                    if below is True or name not in place(document, path):
                        continue
                    refused = 0
                    for stranger in STRANGERS:
                        wrong = copy.deepcopy(document)
                        place(wrong, path)[name] = stranger
                        refused += 0 if validator.is_valid(wrong) else 1
                    if refused < 3:
                        fail(f"{key}: {path + [name]} may be almost anything", document)
                    mutated += 1
    print(f"{valid} documents are valid, {mutated} wrong ones are refused, of {len(seen)} kinds")


main(*sys.argv[1:])
