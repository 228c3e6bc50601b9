/**
 * The admission policy that refuses every write of kubelets whose machines are in quarantine
 * (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/, stable
 * since Kubernetes 1.30). It does not stop what such a kubelet reads: the Node authorizer grants
 * that for the pods of its node alone.
 */

/** The name of the policy and of its binding. */
export const QUARANTINE_POLICY = 'muster-quarantine';

const API_VERSION = 'admissionregistration.k8s.io/v1';

/** The policy for these machines. Names are those of documents: letters, digits and dashes. */
export function quarantinePolicy(machines: readonly string[]): object {
  const users = machines.toSorted().map((name) => JSON.stringify(`system:node:${name}`));
  return {
    apiVersion: API_VERSION,
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: QUARANTINE_POLICY },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: [
          {
            apiGroups: ['*'],
            apiVersions: ['*'],
            operations: ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'],
            resources: ['*/*'],
          },
        ],
      },
      matchConditions: [
        { name: 'quarantined-node', expression: `request.userInfo.username in [${users.join(', ')}]` },
      ],
      validations: [
        {
          expression: 'false',
          message: 'Muster: the machine of this node is in quarantine',
          reason: 'Forbidden',
        },
      ],
    },
  };
}

/** The binding that puts the policy into force in the whole cluster. */
export const quarantineBinding = (): object => ({
  apiVersion: API_VERSION,
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata: { name: QUARANTINE_POLICY },
  spec: { policyName: QUARANTINE_POLICY, validationActions: ['Deny'] },
});
