#ifndef TUTTI_TOOLS_FILES_RANK_FILES_H_
#define TUTTI_TOOLS_FILES_RANK_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// Whether `a` comes before `b` where runs of digits count as numbers of any
// length: "rank2" before "rank10". A strict total order: names whose numbers
// are equal ("rank1", "rank01") are ordered by their bytes.
bool NaturalLess(absl::string_view a, absl::string_view b);

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

// File name of a rank's result: "rank12.npy".
std::string RankFileName(int rank);

// Checks that writing files of these names into the directory replaces no
// input. Errors: UsageError naming the input that would be replaced.
absl::Status CheckReplacesNoInput(const std::string& directory,
                                  const std::vector<std::string>& names,
                                  const std::vector<std::string>& inputs);

// Checks that each name in the directory leads to a different file, links
// included. Errors: UsageError naming two names that lead to one file.
absl::Status CheckFilesApart(const std::string& directory,
                             const std::vector<std::string>& names);

// Other files in the directory whose names are those of rank results, in
// natural order.
std::vector<std::string> OtherRankFiles(const std::string& directory,
                                        const std::vector<std::string>& names);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_RANK_FILES_H_
