#ifndef TUTTI_TOOLS_INPUT_FILES_H_
#define TUTTI_TOOLS_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti {

// The files that --input options name, in rank order.
//
// Each entry of `inputs` is one option with its words: file names, or patterns
// as the shell knows them (* ? [] and ~). What the words of one option stand
// for is put in natural order as a whole, so that a pattern means the same
// whether the shell or this function expands it; options follow one another as
// given. A word that names an existing file is no pattern. Errors: NOT_FOUND
// for a pattern that matches nothing.
absl::StatusOr<std::vector<std::string>> ExpandInputs(
    const std::vector<std::vector<std::string>>& inputs);

}  // namespace tutti

#endif  // TUTTI_TOOLS_INPUT_FILES_H_
