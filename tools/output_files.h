#ifndef TUTTI_TOOLS_OUTPUT_FILES_H_
#define TUTTI_TOOLS_OUTPUT_FILES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Files that appear in a directory together or not at all.
//
// Each is written under a temporary name beside its own; Commit() then renames
// them, over files that have those names. The destructor removes what was not
// committed, and the directories that Create() made if they are empty. All
// errors name the file.
class OutputFiles {
 public:
  // Makes the directory, and those above it, where they are missing.
  static absl::StatusOr<std::unique_ptr<OutputFiles>> Create(
      const std::string& directory);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes `head`, then `body`, and closes the file.
  absl::Status Write(const std::string& name, absl::string_view head,
                     absl::Span<const std::byte> body);

  // Call once, last. Errors: what a rename can fail with after all files were
  // written, such as a directory that somebody removed meanwhile; then the
  // files before the failing one are in place.
  absl::Status Commit();

  // What has been written so far, by its final path, in order.
  std::vector<std::string> paths() const;

 private:
  struct Staged {
    std::string temporary;
    std::string path;
  };

  explicit OutputFiles(std::string directory)
      : directory_(std::move(directory)) {}

  const std::string directory_;
  std::vector<std::string> made_directories_;  // Outermost first.
  std::vector<Staged> staged_;
  bool committed_ = false;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_OUTPUT_FILES_H_
