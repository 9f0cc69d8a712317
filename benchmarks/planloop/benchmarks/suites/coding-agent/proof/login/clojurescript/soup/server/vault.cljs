(ns vault
  (:require ["http" :as http]
            ["fs/promises" :refer [readFile]]
            [promesa.core :as p]
            [sessions :as s]
            [users :refer [authenticated]]))

(defn session [method token body]
  (case method
    "POST" (let [given (js/URLSearchParams. body)
                 user (authenticated (.get given "name") (.get given "secret"))]
             (if user {:ok true :user user :token (s/begin user)} {:ok false}))
    "DELETE" (do (s/end token) {:ok true})
    (let [user (s/owner token)]
      {:ok (some? user) :user user})))

(def server (http/Server.))

(.on server "request"
     (fn [request response]
       (if (= (.-url request) "/session")
         (let [body (atom "")
               token (subs (or (.. request -headers -authorization) "Bearer ") 7)]
           (.on request "data" #(swap! body str %))
           (.on request "end"
                #(.end response (js/JSON.stringify (clj->js (session (.-method request) token @body))))))
         (p/let [page (readFile "web/index.html" "utf8")]
           (.setHeader response "Content-Type" "text/html;charset=utf-8")
           (.end response page)))))

(.listen server #js {:port (js/Number js/process.env.PORT) :host "0.0.0.0"})
