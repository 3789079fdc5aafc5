#ifndef TUTTI_TOOLS_CHOICE_OPTIONS_H_
#define TUTTI_TOOLS_CHOICE_OPTIONS_H_

#include "CLI/CLI.hpp"
#include "framework/determinism.h"

namespace tutti {

// What the command line says of the choice among implementations, apart from a
// name.
struct ChoiceOptions {
  Determinism determinism = Determinism::kNotGuaranteed;  // Wanted at least.
};

// --determinism. `options` outlives the parsing.
void AddChoiceOptions(CLI::App* app, ChoiceOptions* options);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CHOICE_OPTIONS_H_
