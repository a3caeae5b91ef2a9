// Only security rules: style is the project's own business, and its config isn't read.
import parser from '@typescript-eslint/parser';
import security from 'eslint-plugin-security';

const files = ['**/*.{js,mjs,cjs,jsx,ts,mts,cts,tsx}'];

export default [
  { ignores: ['**/node_modules/', '**/dist/', '**/vendor/', '**/*.min.js'] },
  {
    files,
    plugins: security.configs.recommended.plugins,
    rules: security.configs.recommended.rules,
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: 'off' },
    languageOptions: { parser, parserOptions: { ecmaFeatures: { jsx: true } } },
  },
];
