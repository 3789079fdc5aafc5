#ifndef TUTTI_REMOTE_GRPC_CONNECTION_CERTIFICATES_TESTING_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_CERTIFICATES_TESTING_H_

#include <string>

#include "tutti/grpc_transport.h"

namespace tutti {

// Certificate authority in a folder of the test, and its certificates, made
// with openssl.
class TestCertificates {
 public:
  // `name` is unique in the test.
  explicit TestCertificates(const std::string& name);

  // Writes a certificate for `subject`, such as "task-0", as common name and as
  // DNS name.
  TlsOptions Issue(const std::string& subject);

  // Same as Issue(), for a certificate that was valid until yesterday.
  TlsOptions IssueExpired(const std::string& subject);

  const std::string& ca() const { return ca_; }

 private:
  TlsOptions Issue(const std::string& subject, int days);

  const std::string folder_;
  const std::string ca_;
  int num_issued_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_CERTIFICATES_TESTING_H_
