#ifndef TUTTI_TOOLS_FILES_INPUT_FILES_H_
#define TUTTI_TOOLS_FILES_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti {

struct ExpandedInputs {
  std::vector<std::string> paths;  // In rank order.

  // The words of some option were given in another order.
  bool reordered = false;
};

// The files that --input options name.
//
// Each entry of `inputs` is one option with its words: file names, or patterns
// as the shell knows them (* ? [] and ~). What the words of one option stand
// for is put in natural order as a whole, so that a pattern means the same
// whether the shell or this function expands it; options follow one another as
// given. A word that names an existing file is no pattern. Errors: NOT_FOUND
// for a pattern that matches nothing, and for a word whose directory does not
// exist.
absl::StatusOr<ExpandedInputs> ExpandInputs(
    const std::vector<std::vector<std::string>>& inputs);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_INPUT_FILES_H_
