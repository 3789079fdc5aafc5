#ifndef TUTTI_TOOLS_FILES_INPUT_FILES_H_
#define TUTTI_TOOLS_FILES_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti {

struct ExpandedInputs {
  std::vector<std::string> paths;  // In rank order.

  // Whether natural order changed the order of some option's words.
  bool reordered = false;
};

// The files that --input options name.
//
// Each entry of `inputs` holds the words of one option: file names, or patterns
// in the shell's syntax (* ? [] and ~). All files of one option are sorted in
// natural order together, so that a pattern means the same whether the shell or
// this function expands it. Options keep their order. A word that names an
// existing file is no pattern. Errors: NOT_FOUND for a pattern that matches
// nothing, and for a word whose directory does not exist.
absl::StatusOr<ExpandedInputs> ExpandInputs(
    const std::vector<std::vector<std::string>>& inputs);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_INPUT_FILES_H_
