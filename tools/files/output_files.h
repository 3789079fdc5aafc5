#ifndef TUTTI_TOOLS_FILES_OUTPUT_FILES_H_
#define TUTTI_TOOLS_FILES_OUTPUT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"

namespace tutti {

// Files that appear in a directory together or not at all.
//
// Each is written under a temporary name beside its own; Commit() then renames
// them, over files that have those names, or if one cannot be renamed, none. A
// link of such a name stays, and what it leads to is replaced; no two may lead
// to one file.
// The destructor removes what was not committed, and the directories that
// Create() found missing if they are empty. All errors name the file, by its
// own name.
//
// That is what holds whatever fails in this process. If it is killed, or the
// machine stops, temporary files may stay, and in the middle of Commit() some
// files may be new and others old; but each of them is whole, since all bytes
// are on disk before the first rename.
//
// Discard() may be called on any thread, the rest is for one.
class OutputFiles {
 public:
  // Makes the directory, and those above it, where they are missing.
  static absl::StatusOr<std::unique_ptr<OutputFiles>> Create(
      const std::string& directory);
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  // Writes `head`, then `body`, to the disk, and closes the file. Errors: also
  // those of ReplaceablePath(), and CANCELLED after Discard().
  absl::Status Write(const std::string& name, absl::string_view head,
                     absl::Span<const std::byte> body) ABSL_LOCKS_EXCLUDED(mu_);

  // Gives all files their names, but for Keep() to make final: until then
  // Discard() puts back what they replaced. Call once. Errors: what a rename
  // can fail with after all files were written, such as a directory that
  // somebody removed meanwhile; then all is as it was. CANCELLED after
  // Discard().
  absl::Status Replace() ABSL_LOCKS_EXCLUDED(mu_);

  // Last. Errors: CANCELLED after Discard().
  absl::Status Keep() ABSL_LOCKS_EXCLUDED(mu_);

  // Both.
  absl::Status Commit() ABSL_LOCKS_EXCLUDED(mu_);

  // What the destructor does, now, and for good. After Keep() there is nothing
  // to discard. Each time it looks anew at directories that were not empty, as
  // while another process had files there.
  void Discard() ABSL_LOCKS_EXCLUDED(mu_);

  // What has been written so far, by its final path, in order.
  std::vector<std::string> paths() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Staged {
    std::string temporary;
    std::string path;   // As the caller calls it,
    std::string whole;  // and where links of that name lead.
    std::string kept;   // Another name of what it replaces; empty: of nothing.
    bool in_place = false;
  };

  explicit OutputFiles(std::string directory)
      : directory_(std::move(directory)) {}

  enum class State : uint8_t { kOpen, kReplaced, kCommitted, kDiscarded };

  static absl::Status ReplaceOne(Staged* file);
  static void Restore(Staged* file);
  void RestoreAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Makes a file beside `whole` under a temporary name that Discard() knows.
  // Returns its descriptor, open for writing. Errors name `path`.
  absl::StatusOr<int> MakeTemporary(const std::string& path,
                                    const std::string& whole)
      ABSL_LOCKS_EXCLUDED(mu_);

  const std::string directory_;
  std::vector<std::string> made_directories_;  // Outermost first.

  mutable Mutex mu_;
  std::vector<Staged> staged_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_) = State::kOpen;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_OUTPUT_FILES_H_
