#ifndef TUTTI_REMOTE_GRPC_CONNECTION_TEST_CERTIFICATES_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_TEST_CERTIFICATES_H_

#include <string>

#include "tutti/grpc_transport.h"

namespace tutti {

// A certificate authority in a folder of the test's own, and certificates of
// it, made with openssl.
class TestCertificates {
 public:
  // `name` tells it from others of the test.
  explicit TestCertificates(const std::string& name);

  // Files with a certificate for `subject`, such as "task-0", as common name
  // and as DNS name.
  TlsOptions Issue(const std::string& subject);

  // The same, of a certificate that was valid until yesterday.
  TlsOptions IssueExpired(const std::string& subject);

  const std::string& ca() const { return ca_; }

 private:
  TlsOptions Issue(const std::string& subject, int days);

  const std::string folder_;
  const std::string ca_;
  int num_issued_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_TEST_CERTIFICATES_H_
