#pragma once

#include <string_view>

namespace adaptdl {

/// What `adaptdl licenses` prints: this program's licence and those of everything linked into it
/// statically or embedded, gathered when it was built (cli/licenses/generate.py). UTF-8, ends with
/// a newline, lives as long as the program.
extern const std::string_view kLicenses;

/// What `adaptdl licenses --sbom` prints, of the same origin: CycloneDX 1.5 JSON. Equal in equal
/// builds: it contains no date.
extern const std::string_view kSbom;

}  // namespace adaptdl
