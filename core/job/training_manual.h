#pragma once

// The tables of adaptdl-train(5), made from the option records.

#include <string>

namespace adaptdl {

enum class Markup { roff, markdown };

// All fields of adaptdl.yaml, section by section: key, type and range, default, meaning.
std::string document_training_settings(Markup markup);

}  // namespace adaptdl
