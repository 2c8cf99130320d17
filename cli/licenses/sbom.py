"""The list of components (software bill of materials) as CycloneDX 1.5 JSON.

Without a date or serial number, which the format does not require: equal builds have equal lists.
"""

import json

FORMAT = "1.5"


def entry(component):
    made = {
        "type": "data" if component.linkage == "data" else "library",
        "bom-ref": component.name,
        "supplier": {"name": component.supplier},
        "name": component.name,
        "version": component.version,
        "description": component.title,
        "licenses": [{"expression": component.license}],
        "purl": component.purl,
        "externalReferences": [{"type": "website", "url": component.home}],
        "properties": [{"name": "adaptdl:linkage", "value": component.linkage}],
    }
    if component.files:
        made["components"] = [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in component.files]
    return made


def sbom(version, components):
    """As text; `version` is the program's."""
    return json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": FORMAT,
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": "adaptdl",
            "name": "adaptdl",
            "version": version,
            "licenses": [{"expression": "Apache-2.0"}],
            "purl": f"pkg:generic/adaptdl@{version}",
        }},
        "components": [entry(component) for component in components],
        "dependencies": [{"ref": "adaptdl", "dependsOn": [part.name for part in components]}],
    }, indent=2)
